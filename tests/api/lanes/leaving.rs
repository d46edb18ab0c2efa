//! Clients that leave: out of the queue they take their request with them, out of a statement never.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::busy::{Busy, send};
use super::{MANY, NOTES};
use crate::support::wire::Cut;
use crate::support::{Reply, wait_until};

/// Sends a whole request and gives the connection, which nobody reads.
async fn begin(busy: &Busy, id: usize, text: &str) -> TcpStream {
    let address = busy.program.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = format!(r#"{{"text":"{text}"}}"#);
    let request = format!(
        "PATCH /api/v1/notes/{id} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Closes connections and waits until the server knows.
async fn leave(busy: &Busy, leavers: Vec<TcpStream>) {
    let open = async || busy.gauge("counterfoil_client_connections").await;
    let left = open().await - leavers.len();
    drop(leavers);
    wait_until("the server has seen them leave", async || open().await == left).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_clients_that_leave_only_what_was_begun_is_written() {
    let busy = Busy::start(NOTES, &["notes"]).await;
    let first = busy.keep().await;
    // Every third leaves while it waits, every third while its statement is under way.
    let (mut early, mut midway) = (Vec::new(), Vec::new());
    let mut staying = Vec::new();
    for id in 2..=MANY {
        match id % 3 {
            0 => early.push(begin(&busy, id, "early").await),
            1 => midway.push(begin(&busy, id, "grouped").await),
            _ => staying.push((id, Reply::of(busy.patch(id, r#"{"text":"grouped"}"#)))),
        }
    }
    let staying = send(staying.into_iter());
    busy.until_queued(MANY - 1).await;
    leave(&busy, early).await;
    let carried = async || busy.gauge("counterfoil_lane_requests_total{lane=\"writes\"}").await;
    let before = carried().await;
    busy.wire.cut(Cut::Wait, "grouped", 1);
    busy.wire.release();
    first.await.unwrap().expect(200);
    wait_until("the group is under way", async || busy.wire.holds()).await;
    let size = carried().await - before;
    leave(&busy, midway).await;
    busy.wire.release();
    for (id, reply) in staying.join_all().await {
        let reply = reply.expect(200);
        assert_eq!((&reply.data()["id"], &reply.data()["text"]), (&id.into(), &"grouped".into()));
    }
    Reply::of(busy.patch(1, r#"{"text":"last"}"#)).await.expect(200);
    assert_eq!(busy.notes("text = 'early' OR id % 3 = 0 AND version > 1").await, [0; 0]);
    let written = busy.notes("text = 'grouped' AND version = 2").await;
    assert!(written.iter().any(|id| id % 3 == 1), "a statement that was begun goes to its end");
    // The lane may think a smaller group better; who leaves while the next one waits is not in it.
    let all: Vec<_> = (2..=MANY).filter(|id| id % 3 > 0).collect();
    assert!(size < all.len() || written == all, "{size} in the group, written: {written:?}");
    assert!(size > 1, "it was a group");
}
