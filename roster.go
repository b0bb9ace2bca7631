package eddy

// roster is a set whose members know their places, so that joining and leaving are cheap and the order is deterministic.
type roster[T seated] []T

// seated is a member of a roster, which alone sets the place.
type seated interface {
	comparable
	seat() *int
}

func (r *roster[T]) join(m T) {
	*m.seat() = len(*r)
	*r = append(*r, m)
}

// leave removes m if it is a member. The last member takes its place.
func (r *roster[T]) leave(m T) {
	all := *r
	i := *m.seat()
	if i >= len(all) || all[i] != m {
		return
	}
	end := len(all) - 1
	all[i] = all[end]
	*all[i].seat() = i
	clear(all[end:])
	*r = all[:end]
}

// each calls f for all members, the last one first. f may remove the member it is given.
func (r *roster[T]) each(f func(T)) {
	for i := len(*r) - 1; i >= 0; i-- {
		f((*r)[i])
	}
}
