//! Everybody who takes part, set up on one private PostgreSQL.

use std::net::SocketAddr;

use crate::Fallible;
use crate::bare::{self, Bare};
use crate::data::Data;
use crate::disk;
use crate::load::{self, Plan, Sample};
use crate::options::Options;
use crate::postgres::Postgres;
use crate::proc::{self, Meter, Server};
use crate::subject::{self, Subject};
use crate::workload::Workload;

/// The table without history, and the one with it.
pub(crate) const PLAIN: &str = "doc";
pub(crate) const LOGGED: &str = "doc_h";

pub(crate) struct Stage<'a> {
    pub(crate) options: &'a Options,
    pub(crate) postgres: &'a Postgres,
    pub(crate) data: Data,
    pub(crate) subject: Option<Subject>,
    /// What else the machine was doing.
    pub(crate) load_before: f64,
    bare: Bare,
}

impl<'a> Stage<'a> {
    pub(crate) fn set(options: &'a Options, postgres: &'a Postgres) -> Fallible<Self> {
        let load_before = proc::load_average()?;
        if load_before > 0.5 {
            eprintln!("the machine is busy (load {load_before}): the figures will say little");
        }
        let url = postgres.url();
        let mut data = Data::connect(&url)?;
        data.require_durable()?;
        let tables = [PLAIN, LOGGED];
        for table in tables {
            data.create(table)?;
        }
        if !options.skip_subject {
            subject::adopt(&options.program, &url, PLAIN, LOGGED)?;
        }
        for table in tables {
            data.age(table)?;
        }
        let subject =
            if options.skip_subject { None } else { Some(Subject::start(&options.program, &url)?) };
        let bare = Bare::start(&url, &tables, options.bare_pool)?;
        Ok(Self { options, postgres, data, subject, load_before, bare })
    }

    /// What the generator itself can reach at this number of clients.
    pub(crate) fn ceiling(&self, clients: usize) -> Fallible<Sample> {
        let trivial = Bare::trivial()?;
        let plan = Plan {
            address: trivial.address,
            workload: Workload::Ok,
            table: "",
            rows: &[],
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

    /// Makes every round of a workload that writes begin from the same state, and tells how fast the
    /// disk is just then.
    pub(crate) fn tidy(&mut self, workload: Workload, table: &str) -> Fallible<Option<f64>> {
        if !workload.commits() {
            return Ok(None);
        }
        self.data.tidy(table)?;
        disk::syncs_per_second(self.postgres.directory()).map(Some)
    }

    fn meter(&self, server: Server) -> Meter {
        Meter { server, postmaster: self.postgres.pid() }
    }
}
