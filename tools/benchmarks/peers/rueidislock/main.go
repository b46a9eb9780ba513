// SPDX-License-Identifier: MIT
// rueidislock, measured. The command line and the answer are described in tools/benchmarks/peers/build.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

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
	r.beginAt(time.Now())
}

func (r *run) beginAt(now time.Time) {
	r.start = now.Add(time.Duration(r.warmup * 1e9))
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

// shared is what processes know of each other: in a file that each of them maps. What the lock guards is touched by its
// holder only.
type shared struct {
	connected atomic.Int64
	begun     atomic.Int64 // when, as time.Now().UnixNano(); 0: not yet
	owner     int64        // who had it last, from 1
	taken     int64        // when
}

func mapped(path string) (*shared, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size := int(unsafe.Sizeof(shared{}))
	if err = file.Truncate(int64(size)); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*shared)(unsafe.Pointer(&memory[0])), nil
}

// contend: so many processes, of which each is a client.
func (r *run) contend() (samples, error) {
	file, err := os.CreateTemp("", "rueidislock-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	runtime.LockOSThread() // whose death would be that of the processes that it started
	all, err := mapped(file.Name())
	if err != nil {
		return nil, err
	}
	parts := make([]bytes.Buffer, r.threads)
	clients := make([]*exec.Cmd, r.threads)
	for i := range clients {
		clients[i] = exec.Command(os.Args[0], append(os.Args[1:], "--client", fmt.Sprint(i+1), "--shared", file.Name())...)
		clients[i].Stdout, clients[i].Stderr = &parts[i], os.Stderr
		clients[i].SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err = clients[i].Start(); err != nil {
			return nil, err
		}
	}
	for all.connected.Load() < int64(r.threads) {
		time.Sleep(time.Millisecond)
	}
	all.begun.Store(time.Now().UnixNano())
	var changes samples
	for i, client := range clients {
		var own samples
		if err = errors.Join(client.Wait(), json.Unmarshal(parts[i].Bytes(), &own)); err != nil {
			return nil, err
		}
		changes = append(changes, own...)
	}
	return changes, nil
}

// contendBeside is one of those processes, or one of several clients in a process. What is kept are takes by another
// one than the last, each as the time since the last.
func (r *run) contendBeside(locker rueidislock.Locker, all *shared, me int64) (samples, error) {
	var changes samples
	waits, cancel := context.WithDeadline(context.Background(), r.end)
	defer cancel()
	for waits.Err() == nil {
		_, unlock, err := locker.WithContext(waits, "bench:contended")
		if err != nil {
			if waits.Err() == nil {
				return nil, err
			}
			break
		}
		if now := time.Now().UnixNano(); all.owner != me {
			changes = r.add(changes, time.Unix(0, all.taken), time.Unix(0, now))
			all.owner, all.taken = me, now
		}
		unlock()
	}
	return changes, nil
}

func (r *run) contender(me int64, path string) error {
	all, err := mapped(path)
	if err != nil {
		return err
	}
	locker, err := r.open()
	if err != nil {
		return err
	}
	for all.connected.Add(1); all.begun.Load() == 0; {
		time.Sleep(time.Millisecond)
	}
	r.beginAt(time.Unix(0, all.begun.Load()))
	changes, err := r.contendBeside(locker, all, me)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(changes)
}

// contendWithin: so many clients in this one process, which spares the system switching between processes.
func (r *run) contendWithin() (samples, error) {
	var changes samples
	var failed error
	var mu sync.Mutex
	var group sync.WaitGroup
	var all shared
	lockers := make([]rueidislock.Locker, r.threads)
	for i := range lockers {
		var err error
		if lockers[i], err = r.open(); err != nil {
			return nil, err
		}
	}
	r.begin()
	for i, locker := range lockers {
		group.Go(func() {
			own, err := r.contendBeside(locker, &all, int64(i)+1)
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, own...)
			failed = errors.Join(failed, err)
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
	case "contend-within":
		r.locks = 1
		return r.contendWithin()
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
	client := flag.Int64("client", 0, "of contend: be one of its processes, of this number")
	path := flag.String("shared", "", "with it: the file that they share")
	flag.StringVar(&r.server, "server", "", "HOST:PORT")
	flag.StringVar(&r.mode, "mode", "pairs", "pairs, handoff, contend or contend-within")
	flag.IntVar(&r.threads, "threads", 1, "goroutines")
	flag.IntVar(&r.locks, "locks", 1, "locks")
	flag.Float64Var(&r.seconds, "seconds", 5, "measured time")
	flag.Float64Var(&r.warmup, "warmup", 1, "time before")
	flag.Parse()

	var all samples
	var err error
	if *client > 0 {
		err = r.contender(*client, *path)
	} else {
		all, err = r.measure()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rueidislock peer:", err)
		os.Exit(1)
	}
	if *client > 0 {
		return
	}
	slices.Sort(all)
	fmt.Printf(`{"peer":"rueidislock","version":"%s","mode":"%s","threads":%d,"locks":%d,"seconds":%.1f,"count":%d,`+
		`"per_second":%.1f,"min_us":%.1f,"p50_us":%.1f,"p99_us":%.1f}`+"\n", version(), r.mode, r.threads, r.locks,
		r.seconds, len(all), float64(len(all))/r.seconds, us(all, 0), us(all, 0.5), us(all, 0.99))
}
