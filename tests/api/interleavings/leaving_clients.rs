//! Clients that send a whole write and are gone before the answer.

use sqlx::{Connection as _, PgConnection};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{assert_sound, chain, sessions};
use crate::support::{Server, wait_until};

const LEAVERS: usize = 1000;
const AT_ONCE: usize = 20;
const ROWS: usize = 4;

const COUNTERS: &str = "
    CREATE TABLE counters (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
    INSERT INTO counters SELECT id, 0 FROM generate_series(1, 4) AS id;";

/// Sends a whole request and cuts the connection: in an orderly way, or with a reset.
async fn send_and_leave(address: &str, request: &str, reset: bool) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    if reset {
        stream.set_zero_linger().unwrap();
    }
}

fn increment(row: usize) -> String {
    let body = r#"{"field":"n","by":1}"#;
    format!(
        "POST /api/v1/counters/{row}/increment HTTP/1.1\r\nhost: x\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A dry run holds a transaction open between its statements, where a cut could leave it.
fn dry_run(row: usize) -> String {
    increment(row).replace("/increment HTTP", "/increment?dry_run=true HTTP")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_that_leave_at_once_leave_nothing_half_done() {
    let server = Server::start(COUNTERS, &["counters"]).await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let mut leavers = JoinSet::new();
    for n in 0..LEAVERS {
        let address = address.clone();
        let row = n % ROWS + 1;
        let request = if n % 5 == 0 { dry_run(row) } else { increment(row) };
        leavers.spawn(async move { send_and_leave(&address, &request, n % 2 == 0).await });
        if leavers.len() == AT_ONCE {
            leavers.join_next().await;
        }
    }
    leavers.join_all().await;

    // The server still serves, on every connection that it has.
    let mut conn = PgConnection::connect(&server.database_url).await.unwrap();
    server.get("/counters/1").await.expect(200);
    wait_until("the server is at rest", async || sessions(&mut conn, "state <> 'idle'").await == 0)
        .await;
    assert!(sessions(&mut conn, "true").await >= 1);

    let mut written = 0;
    for row in 1..=ROWS {
        let path = format!("/counters/{row}");
        // Somebody who stays: a row whose clients all left too early has a history then, too.
        server.post(&format!("{path}/increment"), r#"{"field":"n"}"#).await.expect(200);
        let stored = server.get(&path).await.expect(200);
        let (n, version) =
            (stored.data()["n"].as_i64().unwrap(), stored.data()["version"].as_i64().unwrap());
        assert_eq!(n + 1, version, "every write of row {row} happened whole or not at all");
        let log = chain(&server, "counters", &row.to_string()).await;
        assert_eq!(log.len(), usize::try_from(version).unwrap());
        written += n;
    }
    let stayed = i64::try_from(ROWS).unwrap();
    assert!(written > stayed, "some of the writes were begun before their clients left");
    assert_eq!(sessions(&mut conn, "state LIKE 'idle in transaction%'").await, 0);
    assert_sound(&server).await;
}
