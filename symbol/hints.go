package symbol

// lineHint returns what would give locations their lines; "" if nothing would.
func (r Reason) lineHint(object, missing string) string {
	switch r {
	case NoShared:
		return "install the package that has " + quote(missing) + ", then perfark archive"
	case NoSplit:
		return "copy " + quote(missing) + ", or the .dwp made with dwp -e " + quote(object) + ", to the same place here"
	}
	return r.hint(object)
}
