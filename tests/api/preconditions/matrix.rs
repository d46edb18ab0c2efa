//! The matrix: {POST, PUT, PATCH as JSON, merge patch and JSON Patch, DELETE, increment} × every
//! header × {live, deleted, never seen}, under each setting and in each manner of asking.

use super::cell::{Bench, Cell, Manner};
use super::headers::{Header, meanings, pairs};
use super::rules::{DEFAULTS, Settings, State, Verb};

async fn try_every_cell(pairs: Vec<(Header, Header)>, settings: Settings, manner: Manner) {
    // Of a batch, each cell needs two records.
    let cells = 2 * pairs.len() * Verb::ALL.len() * State::ALL.len();
    let mut bench = Bench::new(settings, cells).await;
    let mut differences = Vec::new();
    for (if_match, if_none_match) in pairs {
        for verb in Verb::ALL {
            for state in State::ALL {
                let cell = Cell { verb, state, if_match, if_none_match, manner };
                differences.extend(bench.run(&cell).await);
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
    bench.finish().await;
}

#[tokio::test]
async fn every_write_honours_its_preconditions() {
    try_every_cell(pairs(), DEFAULTS, Manner::Plain).await;
}

/// Cells of one verb are alike, so those that come at once share statements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_share_a_statement_are_each_judged_by_their_own_preconditions() {
    let pairs = pairs();
    let mut bench = Bench::new(DEFAULTS, pairs.len() * Verb::ALL.len() * State::ALL.len()).await;
    let mut differences = Vec::new();
    for verb in Verb::ALL {
        let cell = |&(if_match, if_none_match): &(Header, Header)| {
            let manner = Manner::Plain;
            State::ALL.map(|state| Cell { verb, state, if_match, if_none_match, manner })
        };
        let cells: Vec<_> = pairs.iter().flat_map(cell).collect();
        for together in cells.chunks(60) {
            differences.extend(bench.run_together(together).await);
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
    let lane = async |figure: &str| {
        let text = reqwest::get(format!("{}/metrics", bench.server.url)).await.unwrap();
        let text = text.text().await.unwrap();
        let name = format!("counterfoil_lane_{figure}_total{{lane=\"writes\"}} ");
        let found = text.lines().find_map(|line| line.strip_prefix(&name));
        found.unwrap().parse::<usize>().unwrap()
    };
    let (requests, statements) = (lane("requests").await, lane("statements").await);
    assert!(requests > 2 * statements, "{requests} requests in {statements} statements");
    bench.finish().await;
}

#[tokio::test]
async fn a_dry_run_answers_what_would_happen_and_writes_nothing() {
    try_every_cell(meanings(false), DEFAULTS, Manner::DryRun).await;
}

#[tokio::test]
async fn a_client_that_prefers_little_gets_the_tag_alone() {
    try_every_cell(meanings(false), DEFAULTS, Manner::Minimal).await;
}

#[tokio::test]
async fn a_problem_document_states_the_same_facts() {
    try_every_cell(meanings(false), DEFAULTS, Manner::Problem).await;
}

#[tokio::test]
async fn strict_etags_compare_as_rfc_9110_has_it() {
    let settings = Settings { strict_etags: true, ..DEFAULTS };
    try_every_cell(pairs(), settings, Manner::Plain).await;
}

#[tokio::test]
async fn a_resource_may_insist_on_if_match() {
    let settings = Settings { require_if_match: true, ..DEFAULTS };
    try_every_cell(meanings(false), settings, Manner::Plain).await;
}

#[tokio::test]
async fn a_resource_may_answer_conflicts_with_412() {
    let settings = Settings { conflict_status: 412, ..DEFAULTS };
    try_every_cell(meanings(false), settings, Manner::Plain).await;
}

/// Pairs that JSON can hold.
fn texts(pairs: Vec<(Header, Header)>) -> Vec<(Header, Header)> {
    let is_text = |header: Header| header.lines.iter().all(|l| std::str::from_utf8(l).is_ok());
    pairs.into_iter().filter(|(a, b)| is_text(*a) && is_text(*b)).collect()
}

#[tokio::test]
async fn an_operation_of_an_atomic_batch_is_judged_as_a_request_of_its_own() {
    try_every_cell(texts(pairs()), DEFAULTS, Manner::Atomic).await;
}

#[tokio::test]
async fn an_operation_of_a_loose_batch_is_judged_as_a_request_of_its_own() {
    try_every_cell(texts(meanings(false)), DEFAULTS, Manner::Loose).await;
}

#[tokio::test]
async fn a_batch_heeds_what_a_resource_insists_on() {
    let settings = Settings { strict_etags: true, require_if_match: true, conflict_status: 412 };
    try_every_cell(texts(meanings(true)), settings, Manner::Atomic).await;
}
