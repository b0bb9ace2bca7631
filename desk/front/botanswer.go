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
	var e *proto.Error
	switch {
	case err == nil:
		answer(w, struct {
			Result hub.TurnResult `json:"result"`
		}{result})
	case errors.As(err, &e):
		problem(w, callbackStatus(e.Code), e)
	default:
		f.storeProblem(w, err)
	}
}

func callbackStatus(c proto.Code) int {
	switch c {
	case proto.CodeUnauthorized:
		return http.StatusUnauthorized
	case proto.CodeBadRequest:
		return http.StatusBadRequest
	case proto.CodeInternal:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}
