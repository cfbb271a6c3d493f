package record

import (
	"fmt"
	"os"
	"strings"
)

// UserID returns the number of a user, given by name or number, from
// /etc/passwd.
func UserID(user string) (int, error) { return userID("/etc/passwd", user) }

func userID(passwd, user string) (int, error) {
	var n int
	if _, err := fmt.Sscanf(user, "%d", &n); err == nil && fmt.Sprint(n) == user && n >= 0 {
		return n, nil
	}
	text, err := os.ReadFile(passwd)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) > 2 && f[0] == user {
			if _, err := fmt.Sscanf(f[2], "%d", &n); err == nil {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("there is no user %q in %s", user, passwd)
}
