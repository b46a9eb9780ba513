// SPDX-License-Identifier: MIT
// rueidislock, measured. The command line and the answer are described in tools/benchmarks/peers/build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const (
	module = "github.com/redis/rueidis"
	lease  = 30 * time.Second
	waited = 5 * time.Millisecond
)

// run is what was asked for.
type run struct {
	server         string
	mode           string
	threads, locks int
	seconds        float64
	warmup         float64
	start, end     time.Time
}

// samples are those of one goroutine; only what lies within the measured time is kept.
type samples []time.Duration

func (r *run) add(to samples, from, until time.Time) samples {
	if from.Before(r.start) || until.After(r.end) {
		return to
	}
	return append(to, until.Sub(from))
}

// begin: time runs from here, so connect first.
func (r *run) begin() {
	r.start = time.Now().Add(time.Duration(r.warmup * 1e9))
	r.end = r.start.Add(time.Duration(r.seconds * 1e9))
}

func (r *run) open() (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{r.server}},
		KeyMajority:    1, // one server, one key
		KeyValidity:    lease,
		NoLoopTracking: true, // what its documentation advises for servers that can
	})
}

func (r *run) pairs() (samples, error) {
	var all samples
	var failed error
	var mu sync.Mutex
	var group sync.WaitGroup
	locker, err := r.open()
	if err != nil {
		return nil, err
	}
	r.begin()
	for i := range r.threads {
		group.Go(func() {
			own, err := r.lockAndUnlock(locker, fmt.Sprintf("bench:%d", i%r.locks))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
			failed = errors.Join(failed, err)
		})
	}
	group.Wait()
	return all, failed
}

func (r *run) lockAndUnlock(locker rueidislock.Locker, name string) (samples, error) {
	var own samples
	for before := time.Now(); before.Before(r.end); {
		_, unlock, err := locker.WithContext(context.Background(), name)
		if err != nil {
			return nil, err
		}
		unlock()
		after := time.Now()
		own = r.add(own, before, after)
		before = after
	}
	return own, nil
}

// taken is what became of a wait: how to release the lock, and when it was there.
type taken struct {
	unlock context.CancelFunc
	at     time.Time
	err    error
}

func take(locker rueidislock.Locker) taken {
	_, unlock, err := locker.WithContext(context.Background(), "bench:handoff")
	return taken{unlock, time.Now(), err}
}

func (r *run) handoff() (samples, error) {
	var own samples
	var sides [2]rueidislock.Locker
	for i := range sides {
		var err error
		if sides[i], err = r.open(); err != nil {
			return nil, err
		}
	}
	r.begin()
	holder := take(sides[0])
	for turn := 1; holder.err == nil && time.Now().Before(r.end); turn++ {
		waiter := make(chan taken)
		go func() { waiter <- take(sides[turn%2]) }()
		time.Sleep(waited)
		released := time.Now()
		holder.unlock()
		holder = <-waiter
		own = r.add(own, released, holder.at)
	}
	if holder.err != nil {
		return nil, holder.err
	}
	holder.unlock()
	return own, nil
}

// contend: each goroutine is a client of its own. What is kept are takes by another one than the last, each as the time
// since the last; the lock guards what tells of it.
func (r *run) contend() (samples, error) {
	var changes samples
	var failed error
	var mu sync.Mutex
	var group sync.WaitGroup
	var last time.Time
	owner := -1
	lockers := make([]rueidislock.Locker, r.threads)
	for i := range lockers {
		var err error
		if lockers[i], err = r.open(); err != nil {
			return nil, err
		}
	}
	r.begin()
	waits, cancel := context.WithDeadline(context.Background(), r.end)
	defer cancel()
	for i, locker := range lockers {
		group.Go(func() {
			for waits.Err() == nil {
				_, unlock, err := locker.WithContext(waits, "bench:contended")
				mu.Lock() // nobody else is inside, but who has failed may be here
				if now := time.Now(); err == nil && owner != i {
					changes = r.add(changes, last, now)
					owner, last = i, now
				} else if err != nil && waits.Err() == nil {
					failed = errors.Join(failed, err)
				}
				mu.Unlock()
				if err != nil {
					return
				}
				unlock()
			}
		})
	}
	group.Wait()
	return changes, failed
}

func (r *run) measure() (samples, error) {
	switch r.mode {
	case "pairs":
		return r.pairs()
	case "handoff":
		r.threads, r.locks = 2, 1
		return r.handoff()
	case "contend":
		r.locks = 1
		return r.contend()
	}
	return nil, fmt.Errorf("no mode %s", r.mode)
}

func us(all samples, share float64) float64 {
	if len(all) == 0 {
		return 0
	}
	return float64(all[int(share*float64(len(all)-1))]) / 1e3
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return ""
}

func main() {
	var r run
	flag.StringVar(&r.server, "server", "", "HOST:PORT")
	flag.StringVar(&r.mode, "mode", "pairs", "pairs, handoff or contend")
	flag.IntVar(&r.threads, "threads", 1, "goroutines")
	flag.IntVar(&r.locks, "locks", 1, "locks")
	flag.Float64Var(&r.seconds, "seconds", 5, "measured time")
	flag.Float64Var(&r.warmup, "warmup", 1, "time before")
	flag.Parse()

	all, err := r.measure()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rueidislock peer:", err)
		os.Exit(1)
	}
	slices.Sort(all)
	fmt.Printf(`{"peer":"rueidislock","version":"%s","mode":"%s","threads":%d,"locks":%d,"seconds":%.1f,"count":%d,`+
		`"per_second":%.1f,"min_us":%.1f,"p50_us":%.1f,"p99_us":%.1f}`+"\n", version(), r.mode, r.threads, r.locks,
		r.seconds, len(all), float64(len(all))/r.seconds, us(all, 0), us(all, 0.5), us(all, 0.99))
}
