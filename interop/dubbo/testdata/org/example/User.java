package org.example;

import java.io.Serializable;
import java.util.List;

/** A class that both sides know. */
public class User implements Serializable {
    private static final long serialVersionUID = 1;

    public long id;
    public String name;
    public List<String> tags;

    public User() {}

    public User(long id, String name, List<String> tags) {
        this.id = id;
        this.name = name;
        this.tags = tags;
    }

    @Override
    public String toString() {
        return id + " " + name + " " + tags;
    }
}
