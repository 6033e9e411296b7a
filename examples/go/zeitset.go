package main

// The replies of Zeitset as Go types. Copy this file into your project, and extend it as you need.

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Limit is the reply of ZRL.CHECK.
type Limit struct {
	Allowed    bool
	Limit      int64
	Remaining  int64 // below 0, the limit is in debt (FORCE)
	RetryAfter time.Duration // after this time, the same call succeeds; 0: it was allowed; negative: it never succeeds
	ResetAfter time.Duration // the time until all units are free
	// Unix time in milliseconds at which the units of this call become available again. Pass it to ZRL.REFUND.
	ChargedUntilMs int64
}

// Header is an HTTP header field.
type Header struct{ Name, Value string }

// Headers are Retry-After and the fields of draft-ietf-httpapi-ratelimit-headers.
func (l Limit) Headers(policy string, window time.Duration) []Header {
	t := l.ResetAfter
	if l.RetryAfter > 0 {
		t = l.RetryAfter
	}
	free := l.Remaining
	if free < 0 {
		free = 0
	}
	headers := []Header{
		{"RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", policy, l.Limit, seconds(window))},
		{"RateLimit", fmt.Sprintf("%q;r=%d;t=%d", policy, free, seconds(t))},
	}
	if l.RetryAfter > 0 {
		headers = append(headers, Header{"Retry-After", fmt.Sprint(seconds(l.RetryAfter))})
	}
	return headers
}

// Whole seconds, rounded up, so that a client waits long enough.
func seconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// Check takes one unit from a limit if one is free.
func Check(ctx context.Context, rdb *redis.Client, key string, limit int64, window time.Duration) (Limit, error) {
	n, err := rdb.Do(ctx, "ZRL.CHECK", key, limit, milliseconds(window)).Int64Slice()
	if err != nil {
		return Limit{}, err
	}
	return Limit{
		Allowed:        n[0] == 1,
		Limit:          n[1],
		Remaining:      n[2],
		RetryAfter:     time.Duration(n[3]) * time.Millisecond,
		ResetAfter:     time.Duration(n[4]) * time.Millisecond,
		ChargedUntilMs: n[5],
	}, nil
}

// Job is a job that ZQ.CLAIM has leased to this client. A client that has the token may acknowledge it.
type Job struct {
	Queue      string
	ID         string
	Token      int64
	Attempt    int64
	DeadlineMs int64
	Payload    string
}

// Claim returns the next due job. If no job is due within block, Claim returns nil. The client's ReadTimeout (3 seconds
// by default) must be longer than block.
func Claim(ctx context.Context, rdb *redis.Client, queue string, lease, block time.Duration) (*Job, error) {
	jobs, err := rdb.Do(ctx, "ZQ.CLAIM", 1, queue, "LEASE", milliseconds(lease), "BLOCK", milliseconds(block)).Slice()
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	f, ok := jobs[0].([]interface{})
	if !ok || len(f) != 6 {
		return nil, fmt.Errorf("ZQ.CLAIM: not a job: %v", jobs[0])
	}
	job := new(Job)
	var all [6]bool
	job.Queue, all[0] = f[0].(string)
	job.ID, all[1] = f[1].(string)
	job.Token, all[2] = f[2].(int64)
	job.Attempt, all[3] = f[3].(int64)
	job.DeadlineMs, all[4] = f[4].(int64)
	job.Payload, all[5] = f[5].(string)
	if all != [6]bool{true, true, true, true, true, true} {
		return nil, fmt.Errorf("ZQ.CLAIM: not a job: %v", f)
	}
	return job, nil
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
