package front

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/proto"
)

// botAnswer takes the answer to a turn that a webhook bot accepted earlier.
func (f *Front) botAnswer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bot.MaxReplyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		problem(w, http.StatusRequestEntityTooLarge, &proto.Error{Code: proto.CodeTooLarge, Text: "The body is over 64 KiB."})
		return
	case err != nil:
		problem(w, http.StatusBadRequest, &proto.Error{Code: proto.CodeBadRequest, Text: "The body could not be read."})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	result, err := f.hub.AnswerTurn(ctx, r.PathValue("id"), r.Header.Get(bot.HeaderTimestamp), r.Header.Get(bot.HeaderSignature), body)
	if err != nil {
		f.callFailed(w, err)
		return
	}
	answer(w, struct {
		Result hub.TurnResult `json:"result"`
	}{result})
}

// callFailed answers for a call of a program that was not carried out.
func (f *Front) callFailed(w http.ResponseWriter, err error) {
	if e, ok := errors.AsType[*proto.Error](err); ok {
		problem(w, statusOf(e.Code), e)
		return
	}
	f.storeProblem(w, err)
}

func statusOf(c proto.Code) int {
	switch c {
	case proto.CodeBadRequest:
		return http.StatusBadRequest
	case proto.CodeUnauthorized:
		return http.StatusUnauthorized
	case proto.CodeForbidden, proto.CodeBlocked:
		return http.StatusForbidden
	case proto.CodeNotFound:
		return http.StatusNotFound
	case proto.CodeConflict, proto.CodeClosed:
		return http.StatusConflict
	case proto.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case proto.CodeInternal:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}
