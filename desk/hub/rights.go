package hub

import (
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// right says who may use a command at all. What a command may do to one conversation is decided by the command.
type right struct {
	customer bool
	staff    perm.Permission // permission that staff needs; "" = no staff
	either   perm.Permission // or this one, if set
	any      bool            // every role of staff
}

// rightOf is the one table of commands and roles. A command that is not in it is refused to everybody.
func rightOf(command string) right {
	switch command {
	case "conv.open", "conv.leave", "conv.handoff", "conv.rate", "visit":
		return right{customer: true}
	case "msg.send", "typing", "conv.close":
		return right{customer: true, staff: perm.Serve}
	case "receipt", "sync", "file.links":
		return right{customer: true, staff: perm.Serve, either: perm.ReadOthers}
	case "take", "transfer", "transfer.accept", "transfer.decline", "return", "reopen", "note.send", "tag", "priority", "snooze", "canned.list", "contact.patch":
		return right{staff: perm.Serve}
	case "watch", "unwatch", "history", "search", "contact.get":
		return right{staff: perm.Serve, either: perm.ReadOthers}
	case "assign":
		return right{staff: perm.Override}
	case "contact.block":
		return right{staff: perm.Block}
	case "contact.erase":
		return right{staff: perm.Personal}
	case "status", "agents", "active":
		return right{any: true}
	case "ping":
		return right{customer: true, any: true}
	}
	return right{}
}

// allowed checks a command against the table. False means that the command has been refused.
func (s *Session) allowed(cmd proto.Command, who identity) bool {
	r := rightOf(cmd.Type)
	ok := false
	switch who.actor.Kind {
	case store.Customer:
		ok = r.customer
	case store.Agent:
		ok = (r.any && who.role.Valid()) || (r.staff != "" && who.role.Can(r.staff)) || (r.either != "" && who.role.Can(r.either))
	}
	if !ok {
		s.deny(cmd, who, "is not for role "+string(who.role))
	}
	return ok
}
