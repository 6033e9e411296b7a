// A tour of Zeitset with go-redis: go run . [redis://localhost:6379]
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func main() {
	url := "redis://localhost:6379"
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	options := must(redis.ParseURL(url))
	options.ReadTimeout = 20 * time.Second // longer than a claim blocks
	rdb := redis.NewClient(options)
	must(rdb.Del(ctx, "tour:otp", "tour:seen", "tour:search", "tour:knock", "tour:mails", "tour:medals").Result())
	oneTimeCodes(rdb)
	seenBefore(rdb)
	rateLimit(rdb)
	queue(rdb)
	leaderboard(rdb)
}

func oneTimeCodes(rdb *redis.Client) {
	fmt.Println("One-time codes: three at most, five minutes each")
	for _, code := range []string{"493811", "882015", "120374", "700126"} {
		err := rdb.Do(ctx, "ZEXP.ADD", "tour:otp", "CAP", 3, "5m", code).Err()
		switch {
		case errors.Is(err, redis.Nil):
			fmt.Printf("  %s: refused\n", code)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Printf("  %s: stored\n", code)
		}
	}
	for _, code := range []string{"882015", "882015"} {
		// ZEXP.REM is the test. If two clients send the same code, only one of them removes it.
		removed := must(rdb.Do(ctx, "ZEXP.REM", "tour:otp", code).Bool())
		fmt.Printf("  %s: %s\n", code, choose(removed, "right", "wrong"))
	}
}

func seenBefore(rdb *redis.Client) {
	fmt.Println("Seen before? Remembered for 60 days")
	for _, message := range []string{"message-4711", "message-4711"} {
		isNew := must(rdb.Do(ctx, "ZEXP.ADD", "tour:seen", "NX", "60d", message).Bool())
		fmt.Printf("  %s: %s\n", message, choose(isNew, "new", "seen"))
	}
}

func rateLimit(rdb *redis.Client) {
	fmt.Println("Rate limit: five searches a minute")
	limit := must(Check(ctx, rdb, "tour:search", 5, time.Minute))
	for limit.Allowed {
		fmt.Printf("  allowed, %d remaining\n", limit.Remaining)
		limit = must(Check(ctx, rdb, "tour:search", 5, time.Minute))
	}
	fmt.Println("  denied")
	for _, header := range limit.Headers("search", time.Minute) {
		fmt.Printf("    %s: %s\n", header.Name, header.Value)
	}
	const window = 250 * time.Millisecond
	must(Check(ctx, rdb, "tour:knock", 1, window))
	for limit = must(Check(ctx, rdb, "tour:knock", 1, window)); !limit.Allowed; {
		time.Sleep(limit.RetryAfter)
		limit = must(Check(ctx, rdb, "tour:knock", 1, window))
	}
	fmt.Println("  allowed after the wait")
}

func worker(rdb *redis.Client) {
	for done := 0; done < 3; {
		job := must(Claim(ctx, rdb, "tour:mails", 30*time.Second, 10*time.Second))
		if job == nil {
			continue
		}
		if job.Payload == "welcome-ann" && job.Attempt == 1 {
			must(rdb.Do(ctx, "ZQ.NACK", job.Queue, job.ID, job.Token).Result())
			fmt.Printf("  %s: failed, returned\n", job.Payload)
		} else if must(rdb.Do(ctx, "ZQ.ACK", job.Queue, job.ID, job.Token).Bool()) {
			done++
			again := choose(job.Attempt > 1, fmt.Sprintf(" at attempt %d", job.Attempt), "")
			fmt.Printf("  %s: done%s\n", job.Payload, again)
		}
	}
}

func queue(rdb *redis.Client) {
	fmt.Println("Queue: by priority, delayed, one failure")
	must(rdb.Do(ctx, "ZQ.PUSH", "tour:mails", "welcome-ann", "ID", "mail:1").Result())
	must(rdb.Do(ctx, "ZQ.PUSH", "tour:mails", "reminder-bob", "ID", "mail:2", "DELAY", "500ms", "PRIORITY", 10).Result())
	must(rdb.Do(ctx, "ZQ.PUSH", "tour:mails", "password-eve", "ID", "mail:3", "PRIORITY", -10).Result())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		worker(rdb)
	}()
	<-finished
	stats, ok := must(rdb.Do(ctx, "ZQ.STATS", "tour:mails").Result()).(map[interface{}]interface{})
	if !ok {
		log.Fatal("ZQ.STATS: no map")
	}
	fmt.Printf("  %d pushed, %d done, %d returned\n", stats["pushed"], stats["acked"], stats["nacked"])
}

func leaderboard(rdb *redis.Client) {
	fmt.Println("Leaderboard: gold, then silver, then bronze")
	must(rdb.Do(ctx, "ZLB.CREATE", "tour:medals", "DIM", "gold", "DIM", "silver", "DIM", "bronze").Result())
	must(rdb.Do(ctx, "ZLB.SET", "tour:medals", "Japan", 20, 12, 13, "USA", 40, 44, 42, "China", 40, 27, 24).Result())
	for rank, row := range must(rdb.Do(ctx, "ZLB.RANGE", "tour:medals", 0, -1, "WITHVALUES").Slice()) {
		fmt.Print("  ", rank)
		for _, value := range row.([]interface{}) {
			fmt.Printf(" %v", value)
		}
		fmt.Println()
	}
	must(rdb.Do(ctx, "ZLB.INCR", "tour:medals", "China", "gold", 1).Result())
	fmt.Printf("  one more gold for China: rank %d\n", must(rdb.Do(ctx, "ZLB.RANK", "tour:medals", "China").Int64()))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func choose(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}
