package storetest

// Proof says which kinds of tests a command of the store takes part in: a store.Command, or a method that writes. "" means
// that it does, anything else is the reason why not.
type Proof struct {
	Command string
	Races   string // random commands of anybody, some at once (Random), and many that want the same (Once)
	Crash   string // the process is killed while it writes (Crash)
	Model   string // people use a Desk that is killed, over a network that fails (desk/model)
}

// Reasons that many commands share.
const (
	oneRow      = "sets one row of its own that nothing else depends on"
	page        = "administrators do this on pages, through the same writer; no chat meets it"
	timer       = "a timer of minutes does this; its tests are those of desk/hub, on a clock of their own"
	hookWork    = "the sender of webhooks does this; its tests are those of desk/hooks, with servers that fail"
	mailWork    = "the sender of mails does this; its tests are those of desk/mail, with servers that fail"
	noFlow      = "its tests are those of the pages of accounts (desk), which no chat meets"
	fileWork    = "files are not written through the network that fails; their tests are those of desk and desk/files"
	offerWork   = "an offer stands for half a minute, and ends with any change that the crash story looks at"
	noOffer     = "the agents of the model pass chats on at once; the tests of offers are those of desk/hub"
	noBot       = "a bot that answers over the network does this; its tests are those of desk/hub and desk/bot, with servers that fail"
	onlySeveral = "only where there are several servers"
	repair      = "an operator does this; it changes nothing, which the checks behind the run say"
)

// Proofs returns the decision about every command. A command that is not here fails the tests until somebody has decided.
func Proofs() []Proof {
	return []Proof{
		// Commands of conversations.
		{"AcceptOffer", "", offerWork, noOffer},
		{"AcceptTurn", "", "", noBot},
		{"Append", "", "", ""},
		{"Arrange", "", "", ""},
		{"AskReset", "", "", noFlow},
		{"Audit", "", "", ""},
		{"BotTurn", "", "", ""},
		{"Leave", "", "", timer},
		{"EndOffer", "", offerWork, noOffer},
		{"LeftMessage", "", "", ""},
		{"MakeOffer", "", offerWork, noOffer},
		{"Move", "", "", ""},
		{"Open", "", "", ""},
		{"Rate", "", "", ""},
		{"Relax", "", "", timer},
		{"Snooze", "", "", ""},
		{"Tag", "", "", ""},
		{"Visited", "", "", ""},
		{"TellTarget", "", "", timer},
		{"Warn", "", "", timer},

		// Customers.
		{"BlockContact", "", "", ""},
		{"CreateVisitor", "", "", ""},
		{"DropVisitor", "", "", noFlow},
		{"EraseContact", "", "", ""},
		{"EraseMore", "", "", ""},
		{"ExtendVisitor", oneRow, "", noFlow},
		{"IdentifyContact", "", "", noFlow},
		{"MergeContacts", "", "", ""},
		{"NoteContact", "", "", page},
		{"PatchContact", "", "", ""},
		{"SaveContact", "", "", page},
		{"SaveMarks", "", "", ""},
		{"SetLocale", "", "", noFlow},

		// Files.
		{"AddAttachment", "", "", fileWork},
		{"DecideAttachment", "", "", fileWork},
		{"DropClosed", "", "what it has not removed yet goes with the next call; EraseMore is killed, and EraseAgain and the erasing of a person go on", "conversations are kept for days at least"},
		{"FilesAt", "FilesAt is its race", "a server that starts again asks again", fileWork},
		{"DropLoose", "", "what it has not removed goes with the next call", fileWork},
		{"Secret", "", "", fileWork},

		// Mails.
		{"DelayMail", "", "a mail that was not delayed is tried again at once", mailWork},
		{"DiscardMail", "", "a mail that was not discarded is still listed", mailWork},
		{"ExpireMails", "", "a mail that has not expired does so with the next call", mailWork},
		{"GiveUpMail", "", "", mailWork},
		{"MailSent", "", "a mail whose end was forgotten is sent once more, which is promised", mailWork},
		{"QueueMail", "", "", mailWork},
		{"RetryMail", "", "a mail that was not tried again is still listed", mailWork},
		{"SealMail", "", "a mail that was not sealed has not been made", mailWork},

		// Staff.
		{"AddMember", "", "", page},
		{"CreateOwnField", page, page, page},
		{"DropOwnField", page, page, page},
		{"UpdateOwnField", page, page, page},
		{"DropFilter", "", "", ""},
		{"SaveFilter", "", "", ""},
		{"SetGone", "", "", ""},
		{"SetStatus", "", "", ""},

		// Accounts.
		{"AcceptInvitation", "", "", ""},
		{"ChangePassword", "", "", noFlow},
		{"CreateAgent", "", "", page},
		{"CreateAgentFor", "", "AcceptInvitation and LinkIdentity are its halves", noFlow},
		{"CreateAgentSession", "", "", ""},
		{"CreateInvitation", "", "", page},
		{"DeleteAgentSession", "", "", noFlow},
		{"DeleteAgentSessions", oneRow, "", noFlow},
		{"DescribeAgentSession", oneRow, "", ""},
		{"LinkIdentity", "", "", noFlow},
		{"NewReset", "", "", noFlow},
		{"DropPush", oneRow, "", noFlow},
		{"SavePush", oneRow, "", noFlow},
		{"RemoveFactor", "", "", noFlow},
		{"ResetPassword", oneRow, "", noFlow},
		{"RevokeInvitation", "", "", page},
		{"SetFactor", "", "", noFlow},
		{"SetRecovery", oneRow, "", noFlow},
		{"SpendTicket", "", "", onlySeveral},
		{"TouchAgentSession", oneRow, "", noFlow},
		{"UnlinkIdentities", "", "", noFlow},
		{"UpdateAgent", "", "", page},
		{"UseFactor", "", "", noFlow},
		{"UseRecovery", "", "", noFlow},
		{"UseReset", "", "", noFlow},

		// Places, bots, programs.
		{"AddBotUsage", oneRow, "", noBot},
		{"CreateAPIKey", "", "", page},
		{"CreateBot", "", "", page},
		{"CreateCanned", "", "", page},
		{"CreateGroup", "", "", page},
		{"CreateSite", "", "", page},
		{"CreateWebhook", "", "", page},
		{"DeleteBot", "", "", page},
		{"DeleteCanned", "", "", page},
		{"DeleteGroup", "", "", page},
		{"DeleteWebhook", "", "", page},
		{"DropDead", "", "what was not dropped is still listed", hookWork},
		{"RetryDead", "", "what is not tried again is still listed", hookWork},
		{"RevokeAPIKey", "", "", page},
		{"SaveHook", "", "", hookWork},
		{"SetGroups", oneRow, "", page},
		{"SetMembers", "", "", page},
		{"TouchAPIKey", oneRow, "", page},
		{"UpdateBot", oneRow, "", page},
		{"UpdateCanned", oneRow, "", page},
		{"UpdateGroup", oneRow, "", page},
		{"UpdateSite", oneRow, "", page},
		{"UpdateWebhook", oneRow, "", page},

		// What looks after the data.
		{"Reconcile", "", repair, ""},
		{"Recount", "", repair, ""},
		{"Claim", "LeaseRace is its race", "a lease ends by itself", onlySeveral},
		{"AdoptTurns", "one server at a time does this", "what it has not adopted goes with the next call", onlySeveral},
		{"Beat", oneRow, "a server says so again every few seconds", onlySeveral},
		{"Bury", "one server at a time does this", "what it has not ended goes with the next call", onlySeveral},
		{"EndNode", oneRow, "a server that has not said so counts as dead soon", onlySeveral},
		{"ShareSpent", oneRow, "limits of before count a minute, with or without a crash", onlySeveral},
		{"SetHere", oneRow, "a server that dies has nobody connected any more", onlySeveral},
		{"Release", "LeaseRace is its race", "a lease ends by itself", onlySeveral},
		{"TrimOutbox", "takes away the rows that the check compares", "what was not trimmed goes with the next call", "rows are kept for days at least"},
	}
}
