// SPDX-License-Identifier: MIT
//! rslock, measured. The command line and the answer are described in tools/benchmarks/peers/build.
//!
//! The threads are tasks of one thread, over the one connection that a LockManager has.

use rslock::{Lock, LockError, LockManager};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::task::{spawn_local, LocalSet};

const VERSION: &str = "0.10.0"; // as in Cargo.toml: the crate does not tell
const LEASE: Duration = Duration::from_secs(30);
const WAITED: Duration = Duration::from_millis(5);

type Failure = Box<dyn std::error::Error>;
type Samples = Vec<Duration>;

/// What was asked for.
#[derive(Clone)]
struct Run {
    server: String,
    mode: String,
    threads: usize,
    locks: usize,
    seconds: f64,
    warmup: f64,
    start: Instant,
    end: Instant,
}

impl Run {
    fn parse() -> Result<Run, Failure> {
        let mut options: HashMap<String, String> = HashMap::new();
        let mut words = std::env::args().skip(1);
        while let Some(name) = words.next() {
            let known = ["--server", "--mode", "--threads", "--locks", "--seconds", "--warmup"];
            match words.next() {
                Some(value) if known.contains(&name.as_str()) => options.insert(name, value),
                _ => return Err(format!("no such option, or no value for it: {name}").into()),
            };
        }
        let get = |name: &str, default: &str| options.get(name).cloned().unwrap_or(default.to_string());
        let mode = get("--mode", "pairs");
        let handoff = mode == "handoff";
        let now = Instant::now();
        Ok(Run {
            server: options.get("--server").cloned().ok_or("--server HOST:PORT is missing")?,
            mode,
            threads: if handoff { 2 } else { get("--threads", "1").parse()? },
            locks: if handoff { 1 } else { get("--locks", "1").parse()? },
            seconds: get("--seconds", "5").parse()?,
            warmup: get("--warmup", "1").parse()?,
            start: now,
            end: now,
        })
    }

    /// Time runs from here.
    fn begin(&mut self) {
        self.start = Instant::now() + Duration::from_secs_f64(self.warmup);
        self.end = self.start + Duration::from_secs_f64(self.seconds);
    }

    fn open(&self) -> LockManager {
        LockManager::new(vec![format!("redis://{}/", self.server)])
    }

    /// Only what lies within the measured time counts.
    fn add(&self, samples: &mut Samples, from: Instant, to: Instant) {
        if from >= self.start && to < self.end {
            samples.push(to - from);
        }
    }

    async fn lock_and_unlock(self, manager: LockManager, name: String) -> Result<Samples, LockError> {
        let mut samples = Samples::new();
        let mut before = Instant::now();
        while before < self.end {
            let lock = manager.acquire_no_guard(name.as_str(), LEASE).await?;
            manager.unlock(&lock).await;
            let after = Instant::now();
            self.add(&mut samples, before, after);
            before = after;
        }
        Ok(samples)
    }

    async fn pairs(&mut self) -> Result<Samples, Failure> {
        let manager = self.open();
        self.begin();
        let tasks: Vec<_> = (0..self.threads)
            .map(|i| spawn_local(self.clone().lock_and_unlock(manager.clone(), format!("bench:{}", i % self.locks))))
            .collect();
        let mut all = Samples::new();
        for task in tasks {
            all.extend(task.await??);
        }
        Ok(all)
    }

    async fn handoff(&mut self) -> Result<Samples, Failure> {
        let mut samples = Samples::new();
        let (mut holder, mut waiter) = (self.open(), self.open());
        self.begin();
        let (mut held, _) = take(holder.clone()).await?;
        while Instant::now() < self.end {
            let waiting = spawn_local(take(waiter.clone()));
            tokio::time::sleep(WAITED).await;
            let released = Instant::now();
            holder.unlock(&held).await;
            let (lock, taken) = waiting.await??;
            self.add(&mut samples, released, taken);
            held = lock;
            std::mem::swap(&mut holder, &mut waiter);
        }
        holder.unlock(&held).await;
        Ok(samples)
    }

    async fn measure(&mut self) -> Result<Samples, Failure> {
        match self.mode.as_str() {
            "pairs" => self.pairs().await,
            "handoff" => self.handoff().await,
            other => Err(format!("no mode {other}").into()),
        }
    }

    fn print(&self, mut samples: Samples) {
        samples.sort();
        let us = |share: f64| match samples.len() {
            0 => 0.0,
            n => samples[(share * (n - 1) as f64) as usize].as_nanos() as f64 / 1e3,
        };
        println!(
            "{{\"peer\":\"rslock\",\"version\":\"{}\",\"mode\":\"{}\",\"threads\":{},\"locks\":{},\"seconds\":{:.1},\
             \"count\":{},\"per_second\":{:.1},\"min_us\":{:.1},\"p50_us\":{:.1},\"p99_us\":{:.1}}}",
            VERSION, self.mode, self.threads, self.locks, self.seconds, samples.len(),
            samples.len() as f64 / self.seconds, us(0.0), us(0.5), us(0.99)
        );
    }
}

/// Waits for the lock and tells when it was there.
async fn take(manager: LockManager) -> Result<(Lock, Instant), LockError> {
    let lock = manager.acquire_no_guard("bench:handoff", LEASE).await?;
    Ok((lock, Instant::now()))
}

fn run() -> Result<(), Failure> {
    let mut run = Run::parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let samples = LocalSet::new().block_on(&runtime, run.measure())?;
    run.print(samples);
    Ok(())
}

fn main() {
    if let Err(failure) = run() {
        eprintln!("rslock peer: {failure}");
        std::process::exit(1);
    }
}
