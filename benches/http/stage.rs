//! Everybody who takes part in a scene, set up on one private PostgreSQL.

use std::net::SocketAddr;

use crate::Fallible;
use crate::bare::{self, Bare};
use crate::data::{Data, LOADED};
use crate::disk;
use crate::load::{self, Plan, Sample};
use crate::options::Options;
use crate::pgbench::{self, Rate};
use crate::postgres::{Postgres, Way};
use crate::proc::{self, Meter, Server};
use crate::scene::Scene;
use crate::subject::{self, Subject};
use crate::workload::{OWNED, Target, Workload, Writes};

/// Where each row is written once, the rows are dealt out to this many runs.
const SHARES: u32 = 25;

pub(crate) struct Stage<'a> {
    pub(crate) options: &'a Options,
    pub(crate) scene: &'a Scene,
    pub(crate) postgres: &'a Postgres,
    pub(crate) memory: Option<Memory>,
    /// What else the machine was doing.
    pub(crate) load_before: f64,
    way: &'a Way,
    data: Data,
    subject: Option<Subject>,
    bare: Bare,
    /// How many shares of rows were written already.
    shares: u32,
}

/// What the subject held, and how long it took to be ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) ready_ms: f64,
    pub(crate) at_rest_mib: f64,
    pub(crate) peak_mib: f64,
}

impl<'a> Stage<'a> {
    pub(crate) fn set(
        options: &'a Options,
        postgres: &'a Postgres,
        scene: &'a Scene,
    ) -> Fallible<Self> {
        let load_before = proc::load_average()?;
        if load_before > 0.5 {
            eprintln!("the machine is busy (load {load_before}): the figures will say little");
        }
        let way = postgres.way(scene.tcp);
        let mut data = Data::connect(&postgres.way(false).url)?;
        data.require_durable()?;
        if let Some(password) = &way.password {
            data.run(format!("alter role postgres password '{password}'"))?;
        }
        let tables = [scene.table(false), scene.table(true)];
        data.clear(&tables)?;
        let loaded = if scene.one_table { LOADED } else { LOADED - 1 };
        let count = if scene.one_table { 1 } else { 2 };
        for table in &tables[..count] {
            data.create(table, scene.rows, &scene.memo, loaded)?;
        }
        if !options.skip_subject {
            subject::migrate(&options.program, &way.url)?;
            for (table, history) in tables[..count].iter().zip([false, true]) {
                subject::adopt(&options.program, &way.url, table, history)?;
            }
        }
        for table in &tables[..count] {
            if !scene.one_table {
                data.age(table)?;
            }
            data.settle(table)?;
        }
        let subject = Self::subject_of(options, way)?;
        let bare = Bare::start(&way.url, &tables[..count], options.bare_pool)?;
        let mut stage = Self {
            options,
            scene,
            postgres,
            memory: None,
            load_before,
            way,
            data,
            subject,
            bare,
            shares: 0,
        };
        stage.note_memory()?;
        Ok(stage)
    }

    fn subject_of(options: &Options, way: &Way) -> Fallible<Option<Subject>> {
        let start = || Subject::start(&options.program, &way.url);
        (!options.skip_subject).then(start).transpose()
    }

    /// Goes on to the half with history.
    pub(crate) fn keep_history(&mut self) -> Fallible<()> {
        if self.scene.one_table {
            self.note_memory()?;
            self.subject = None;
            subject::adopt(&self.options.program, &self.way.url, self.scene.table(true), true)?;
            self.subject = Self::subject_of(self.options, self.way)?;
        }
        Ok(())
    }

    /// Notes what the subject held until now; the most counts.
    pub(crate) fn note_memory(&mut self) -> Fallible<()> {
        if let Some(subject) = &self.subject {
            let before = self.memory.map_or(0.0, |memory| memory.peak_mib);
            self.memory = Some(Memory {
                ready_ms: subject.start_up.as_secs_f64() * 1000.0,
                at_rest_mib: subject.at_rest_mib,
                peak_mib: subject.peak_mib()?.max(before),
            });
        }
        Ok(())
    }

    /// Removes the tables; a large one takes more room than what comes after it should have to do without.
    pub(crate) fn clear(mut self) -> Fallible<()> {
        drop((self.subject.take(), self.bare));
        self.data.clear(&[self.scene.table(false), self.scene.table(true)])
    }

    /// What the generator itself can reach at this number of clients.
    pub(crate) fn ceiling(&self, clients: usize) -> Fallible<Sample> {
        let trivial = Bare::trivial()?;
        let target = Target { table: "", rows: 0, memo: "", writes: Writes::Once(0) };
        let plan = Plan {
            address: trivial.address,
            workload: Workload::Ok,
            target: &target,
            clients,
            seconds: self.options.seconds,
        };
        load::run(&plan, &self.meter(Server::Threads(bare::THREADS)))
    }

    pub(crate) fn subject(&self) -> Option<(SocketAddr, Meter)> {
        let subject = self.subject.as_ref()?;
        Some((subject.address, self.meter(Server::Process(subject.pid()))))
    }

    pub(crate) fn bare(&self) -> (SocketAddr, Meter) {
        (self.bare.address, self.meter(Server::Threads(bare::THREADS)))
    }

    pub(crate) fn http(
        &mut self,
        workload: Workload,
        table: &str,
        clients: usize,
        (address, meter): &(SocketAddr, Meter),
    ) -> Fallible<Sample> {
        let target = self.target(workload, table, clients)?;
        let (address, seconds) = (*address, self.options.seconds);
        load::run(&Plan { address, workload, target: &target, clients, seconds }, meter)
    }

    pub(crate) fn pgbench(
        &mut self,
        workload: Workload,
        table: &str,
        clients: usize,
    ) -> Fallible<Rate> {
        let target = self.target(workload, table, clients)?;
        let (postgres, way, seconds) = (self.postgres, self.way, self.options.seconds);
        let run = pgbench::Run { postgres, way, memo: &self.scene.memo, clients, seconds };
        run.of(workload, &target)
    }

    fn target<'t>(
        &mut self,
        workload: Workload,
        table: &'t str,
        clients: usize,
    ) -> Fallible<Target<'t>>
    where
        'a: 't,
    {
        let Scene { rows, one_table, .. } = *self.scene;
        let memo = self.scene.memo.as_str();
        let writes = if !workload.raises() {
            Writes::Own(Vec::new())
        } else if one_table {
            let share = self.shares;
            self.shares += 1;
            if share == SHARES {
                return Err("every row was written; fewer rounds or more rows are needed".into());
            }
            Writes::Once(rows / SHARES * share)
        } else {
            Writes::Own(self.data.versions(table, clients * OWNED)?)
        };
        Ok(Target { table, rows, memo, writes })
    }

    /// Makes every round of a workload that writes begin from the same state, and tells how fast the
    /// disk is just then.
    pub(crate) fn tidy(&mut self, workload: Workload, table: &str) -> Fallible<Option<f64>> {
        if !workload.commits() {
            return Ok(None);
        }
        if workload == Workload::Post {
            self.data.remove_created(table)?;
        }
        self.data.tidy(table)?;
        disk::syncs_per_second(self.postgres.directory()).map(Some)
    }

    fn meter(&self, server: Server) -> Meter {
        Meter { server, postmaster: self.postgres.pid() }
    }
}
