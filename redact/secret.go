package redact

import (
	"regexp"
	"strings"
)

// stars stand in a command line for what is secret.
const stars = "***"

// secretName is how the names of secrets look.
const secretName = `(?:[A-Za-z0-9]+[_.-])*(?:token|passw(?:or)?d|passwd|passphrase|pwd|secret|api-?_?key|access-?_?key|private-?_?key|secret-?_?key|auth|authorization|credentials?|cookie|session(?:-?_?id)?|bearer|signature|dsn|pat|pin)(?:[_.-][A-Za-z0-9]+)*`

var (
	// --token=VALUE, TOKEN=VALUE, token:VALUE. The value goes on to a blank.
	secretAssign = regexp.MustCompile(`(?i)((?:^|[^A-Za-z0-9])(?:-D|-{0,2})` + secretName + `\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;&'"]+)`)

	// --token, whose value is the next argument.
	secretFlag = regexp.MustCompile(`(?i)^--?` + secretName + `$`)

	// scheme://user:password@
	urlUser = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s/@]+)@`)

	// NAME=VALUE as in an environment.
	assign = regexp.MustCompile(`(^|[\s;,])((?:--?)?[A-Za-z_][A-Za-z0-9_.-]*=)("[^"]*"|'[^']*'|\S+)`)

	anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s'"]+`)

	// Forms that tokens have: of AWS, GitHub, GitLab, Slack, Google, OpenAI, npm, JWT.
	tokenForm = regexp.MustCompile(`\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[0-9A-Za-z]{20,}|github_pat_[0-9A-Za-z_]{20,}|glpat-[0-9A-Za-z_-]{16,}|xox[abprs]-[0-9A-Za-z-]{10,}|AIza[0-9A-Za-z_-]{30,}|sk-[0-9A-Za-z_-]{20,}|npm_[0-9A-Za-z]{30,}|eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}(?:\.[0-9A-Za-z_-]*)?)`)
)

// Args returns a command line as it may be kept: values of what is called a
// password, a token, a key or the like, users and passwords in URLs, and what
// looks like a token are ***. Everything else stays.
func Args(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = secretArg(a)
		switch {
		case i == 0 || strings.HasPrefix(a, "-"):
		case secretFlag.MatchString(args[i-1]):
			out[i] = stars
		case takesUser(args[i-1]):
			out[i] = userPassword(out[i])
		}
	}
	return out
}

// takesUser reports whether USER:PASSWORD follows a flag, as it does those of
// curl.
func takesUser(a string) bool {
	return a == "-u" || a == "--user" || a == "-U" || a == "--proxy-user"
}

// userPassword masks what follows the colon of USER:PASSWORD.
func userPassword(s string) string {
	if user, _, ok := strings.Cut(s, ":"); ok {
		return user + ":" + stars
	}
	return s
}

// secretArg masks what is secret in one argument.
func secretArg(a string) string {
	a = urlUser.ReplaceAllString(a, "${1}"+stars+"@")
	a = secretAssign.ReplaceAllString(a, "${1}"+stars)
	return tokenForm.ReplaceAllString(a, stars)
}

// secretsIn returns the values in a text that are secret, for they are replaced
// wherever they stand. all says that the values of all assignments count.
func secretsIn(s string, all bool) []string {
	var out []string
	for _, m := range secretAssign.FindAllStringSubmatch(s, -1) {
		out = append(out, strings.Trim(m[2], `'"`))
	}
	for _, m := range urlUser.FindAllStringSubmatch(s, -1) {
		out = append(out, m[2])
		if user, pass, ok := strings.Cut(m[2], ":"); ok {
			out = append(out, user, pass)
		}
	}
	out = append(out, tokenForm.FindAllString(s, -1)...)
	if all {
		for _, m := range assign.FindAllStringSubmatch(s, -1) {
			if v := strings.Trim(m[3], `'"`); rare(v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// rare reports whether a value of which it is not known what it means is of a
// kind that does not stand for something else elsewhere: no path, no plain word,
// no number.
func rare(s string) bool {
	digits, letters := 0, 0
	for _, c := range []byte(s) {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			letters++
		}
	}
	return len(s) >= 8 && digits > 0 && letters > 0 && !strings.ContainsAny(s, "/,")
}
