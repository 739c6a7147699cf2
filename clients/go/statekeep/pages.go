package statekeep

import "iter"

// pages ranges over the items of all pages, and asks for the next page when those of one are done. It ends with the
// first error. Ranging over it again begins at the first page.
func pages[Item any](fetch func(token string) (items []Item, next string, err error)) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for token, first := "", true; first || token != ""; first = false {
			items, next, err := fetch(token)
			if err != nil {
				yield(*new(Item), err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			token = next
		}
	}
}

// Collect gathers all that an iterator of this package hands out, up to its first error.
func Collect[Item any](items iter.Seq2[Item, error]) ([]Item, error) {
	var all []Item
	for item, err := range items {
		if err != nil {
			return all, err
		}
		all = append(all, item)
	}
	return all, nil
}
