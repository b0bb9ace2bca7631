package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	guide        = "docs/desk.md"
	pictures     = "docs/pictures"
	largePicture = 80 << 10 // bytes
)

// noTasks are the sections of docs/desk.md that tell of the program and not of its pages. Each other one is about a task.
var noTasks = []string{
	"1. Install", "Settings", "Starting, stopping, watching", "6. Backups", "7. Updates", "8. Limits", "9. What is stored, and where",
}

var picture = regexp.MustCompile(`!\[([^\]]+)\]\(([^)]+)\)`)

// sections returns the text of each section of a document by its heading, without blocks of code.
func sections(text string) map[string]string {
	all := map[string]string{}
	heading, fenced := "", false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if name, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "##") && !fenced {
			heading = strings.TrimSpace(name)
			all[heading] = ""
		} else if !fenced {
			all[heading] += line
		}
	}
	delete(all, "") // what stands before the first heading
	return all
}

// unpictured returns the sections about tasks that begin without a picture, and the names of noTasks that are gone.
func unpictured(text string) (tasks, gone []string) {
	all := sections(text)
	for heading, body := range all {
		if at := picture.FindStringIndex(strings.TrimSpace(body)); !slices.Contains(noTasks, heading) && (at == nil || at[0] > 0) {
			tasks = append(tasks, heading)
		}
	}
	for _, heading := range noTasks {
		if _, ok := all[heading]; !ok {
			gone = append(gone, heading)
		}
	}
	slices.Sort(tasks)
	return tasks, gone
}

// TestEachTaskHasAPicture: each section of docs/desk.md about a task begins with a picture of the page where it is done.
func TestEachTaskHasAPicture(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository(t), filepath.FromSlash(guide)))
	if err != nil {
		t.Fatal(err)
	}
	tasks, gone := unpictured(string(text))
	for _, heading := range tasks {
		t.Errorf("%s: %q has no picture below its heading; TestPicturesOfDocuments in desk/e2e makes them", guide, heading)
	}
	for _, heading := range gone {
		t.Errorf("%s has no section %q any more", guide, heading)
	}
}

// TestPicturesAreUsed: each picture is shown by a document, is there, says in words what it shows, and is no larger than
// a picture has to be.
func TestPicturesAreUsed(t *testing.T) {
	root := repository(t)
	names, _ := documents(t)
	shown := map[string]bool{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range picture.FindAllStringSubmatch(string(text), -1) {
			file := filepath.ToSlash(filepath.Join(filepath.Dir(name), m[2]))
			if info, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); strings.Contains(m[2], "://") {
				continue
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if strings.HasPrefix(file, pictures) && info.Size() > largePicture {
				t.Errorf("%s has %d bytes, more than %d", file, info.Size(), largePicture)
			}
			shown[file] = true
		}
	}
	files, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(pictures)))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d pictures, %v", len(files), err)
	}
	for _, f := range files {
		if file := pictures + "/" + f.Name(); !shown[file] {
			t.Errorf("no document shows %s", file)
		}
	}
}

// TestPictureRules: a section without a picture is found.
func TestPictureRules(t *testing.T) {
	const shown = "\n\n![It](pictures/it.webp)\n\ntext\n"
	text := "# Title\n" + shown + "## A" + shown + "### B\n\ntext\n" + shown + "## C\n\n```sh\n# D\n## E\n```\n"
	for _, heading := range noTasks[1:] {
		text += "## " + heading + "\n"
	}
	tasks, gone := unpictured(text)
	if want := []string{"B", "C"}; !slices.Equal(tasks, want) {
		t.Errorf("without a picture: %q, want %q", tasks, want)
	}
	if !slices.Equal(gone, noTasks[:1]) {
		t.Errorf("gone: %q", gone)
	}
}
