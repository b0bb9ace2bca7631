package eddy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestRegisterCloseReason: a name stands for one reason, whoever registers it; another kind of name, a name of the engine
// and one too many are refused with the name and the remedy.
func TestRegisterCloseReason(t *testing.T) {
	var own reasonNames
	longest := strings.Repeat("x", ownReasonMaxName)
	for _, name := range []string{"", "Quota", "quota exceeded", "quota-exceeded", "_quota", "4_quota", "quotä", "a\n", longest + "x", "unset", "normal", "internal_error"} {
		if r, err := own.register(name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%.50q", name)) {
			t.Errorf("%q is reason %d, %v", name, r, err)
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range maxOwnReasons - 1 {
				_, _ = own.register(fmt.Sprintf("own_%d", i))
			}
		})
	}
	all.Wait()
	if r, err := own.register(longest); r != closeReasons+maxOwnReasons-1 || err != nil {
		t.Errorf("the last name is reason %d, %v", r, err)
	}
	if again, err := own.register(longest); again != closeReasons+maxOwnReasons-1 || err != nil {
		t.Errorf("the last name again is reason %d, %v", again, err)
	}
	if r, err := own.register("one_too_many"); err == nil || !strings.Contains(err.Error(), "32") {
		t.Errorf("the 33rd name is reason %d, %v", r, err)
	}
	defer func() {
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), `RegisterCloseReason("No")`) {
			t.Errorf("a wrong name panics with %v", err)
		}
	}()
	RegisterCloseReason("No")
}
