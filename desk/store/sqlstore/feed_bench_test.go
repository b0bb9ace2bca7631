package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// BenchmarkFeedOfAnother is how long a message takes from the command at one server to the feed of another one, on PostgreSQL, with so many
// customers who write one message after the other, or a number of messages a second.
func BenchmarkFeedOfAnother(b *testing.B) {
	for _, c := range []struct {
		name      string
		customers int
		every     time.Duration // between two messages, 0 = each as soon as the one before is committed
	}{{"1 customer", 1, 0}, {"500 a second", 64, 2 * time.Millisecond}, {"64 customers", 64, 0}} {
		b.Run(c.name, func(b *testing.B) { feedOfAnother(b, c.customers, c.every) })
	}
}

func feedOfAnother(b *testing.B, customers int, every time.Duration) {
	url := freshPostgres(b)
	open := func() *DB {
		db, err := Open(b.Context(), Options{URL: url, Wait: far})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		return db
	}
	here, there := open(), open()
	site, err := here.CreateSite(b.Context(), store.Site{Key: "demo", Name: "Demo"})
	if err != nil {
		b.Fatal(err)
	}
	run := func(cmd store.Command) store.Outcome {
		done := make(chan store.Outcome, 1)
		here.Do(cmd, time.Now().Add(time.Hour), func(out store.Outcome) { done <- out })
		return <-done
	}
	convs := make([]store.Conversation, customers)
	for i := range convs {
		c, err := here.CreateVisitor(b.Context(), site, store.Token{byte(i), 1}, time.Now().Add(time.Hour))
		if err != nil {
			b.Fatal(err)
		}
		convs[i] = run(store.Open{Contact: c, Human: true}).Conv
	}
	var lags []time.Duration
	kick, all := make(chan struct{}, 1), make(chan struct{})
	at, stop := there.Follow(func(*store.Fed) {
		select {
		case kick <- struct{}{}:
		default:
		}
	})
	defer stop()
	pages := 0
	go func() {
		defer close(all)
		for len(lags) < b.N {
			<-kick
			for more := true; more; {
				p, err := there.Hot().Fed(b.Context(), at, 256)
				if err != nil {
					b.Error(err)
					return
				}
				for _, part := range p.All {
					if len(part.Events) > 0 && part.Events[0].Kind == store.KindText {
						sent, _ := strconv.ParseInt(part.Events[0].Body, 10, 64)
						lags = append(lags, time.Duration(time.Now().UnixNano()-sent))
					}
				}
				at, more = p.Last, p.More
				pages++
			}
		}
	}()
	var due <-chan time.Time
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		due = t.C
	}
	b.ResetTimer()
	var writers sync.WaitGroup
	next := make(chan struct{}, customers)
	for i := range convs {
		writers.Go(func() {
			n := 0
			for range next {
				n++
				from := store.Actor{Kind: store.Customer, ID: convs[i].Contact}
				out := run(store.Append{Conv: convs[i].ID, From: from, ClientID: fmt.Sprint(n), Body: strconv.FormatInt(time.Now().UnixNano(), 10)})
				if out.Err != nil {
					b.Error(out.Err)
				}
			}
		})
	}
	for range b.N {
		if due != nil {
			<-due
		}
		next <- struct{}{}
	}
	close(next)
	writers.Wait()
	<-all
	slices.SortFunc(lags, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	at50, at99 := lags[len(lags)/2], lags[len(lags)*99/100]
	b.ReportMetric(float64(at50.Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(at99.Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(pages)/float64(b.N), "pages/message")
}
