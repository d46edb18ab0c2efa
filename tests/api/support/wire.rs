//! A wire between a server and PostgreSQL that is cut at a chosen point.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;

use super::database;
use super::scratch::Scratch;

/// Where a statement is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It never reaches PostgreSQL.
    Statement,
    /// Half of it reaches PostgreSQL.
    Torn,
    /// PostgreSQL ran it; what it said is lost.
    Answer,
    /// It waits on its way until [`Wire::release`], and is lost to nobody.
    Wait,
}

/// The statement to cut: the `nth` one that carries the marker.
struct Order {
    marker: Vec<u8>,
    nth: usize,
    cut: Cut,
}

/// Where a statement waits.
#[derive(Default)]
struct Gate {
    waits: AtomicBool,
    open: Notify,
}

pub struct Wire {
    /// The database's URL, by way of the wire.
    pub url: String,
    order: Arc<Mutex<Option<Order>>>,
    gate: Arc<Gate>,
    away: Arc<AtomicBool>,
    _directory: Scratch,
}

impl Wire {
    /// A wire to the database of this URL.
    pub async fn to(database_url: &str) -> Self {
        let directory = Scratch::new("wire");
        let socket = directory.path().join(".s.PGSQL.5432");
        let listener = UnixListener::bind(&socket).unwrap();
        let target = database::postgres().await.socket_dir().join(".s.PGSQL.5432");
        let order = Arc::new(Mutex::new(None));
        let orders = order.clone();
        let gate = Arc::<Gate>::default();
        let gates = gate.clone();
        let away = Arc::new(AtomicBool::new(false));
        let closed = away.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if closed.load(Ordering::Relaxed) {
                    continue;
                }
                let far = UnixStream::connect(&target).await.unwrap();
                tokio::spawn(pass(near, far, orders.clone(), gates.clone()));
            }
        });
        let (user, rest) = database_url.split_once('@').unwrap();
        let (_, database) = rest.rsplit_once(':').unwrap();
        let host = directory.path().display().to_string().replace('/', "%2F");
        let url = format!("{user}@{host}:{database}");
        Self { url, order, gate, away, _directory: directory }
    }

    /// Lets nobody connect any more, or again.
    pub fn away(&self, away: bool) {
        self.away.store(away, Ordering::Relaxed);
    }

    /// Cuts the connection at the `nth` statement from now on that carries this text.
    pub fn cut(&self, cut: Cut, marker: &str, nth: usize) {
        let marker = marker.as_bytes().to_vec();
        *self.order.lock().unwrap() = Some(Order { marker, nth, cut });
    }

    /// Whether a statement waits.
    pub fn holds(&self) -> bool {
        self.gate.waits.load(Ordering::Relaxed)
    }

    /// Lets the statement that waits go on.
    pub fn release(&self) {
        assert!(self.holds(), "nothing waits");
        self.gate.open.notify_one();
    }
}

async fn pass(
    near: UnixStream,
    far: UnixStream,
    orders: Arc<Mutex<Option<Order>>>,
    gate: Arc<Gate>,
) {
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let cut_answer = Mutex::new(false);
    // Whichever ends first ends both: that is the cut.
    tokio::select! {
        () = forward(near_in, far_out, &gate, |bytes| {
            match due(&orders, bytes) {
                Some(Cut::Statement) => Some(0),
                Some(Cut::Torn) => Some(bytes.len() / 2),
                Some(Cut::Answer) => {
                    *cut_answer.lock().unwrap() = true;
                    Some(bytes.len())
                }
                Some(Cut::Wait) => None,
                None => Some(bytes.len()),
            }
        }) => {}
        () = forward(far_in, near_out, &gate, |bytes| {
            Some(if *cut_answer.lock().unwrap() { 0 } else { bytes.len() })
        }) => {}
    }
}

/// What is to be done about these bytes on their way to PostgreSQL.
fn due(orders: &Mutex<Option<Order>>, bytes: &[u8]) -> Option<Cut> {
    let mut pending = orders.lock().unwrap();
    let order = pending.as_mut()?;
    if !bytes.windows(order.marker.len()).any(|window| window == order.marker) {
        return None;
    }
    order.nth -= 1;
    if order.nth > 0 {
        return None;
    }
    pending.take().map(|order| order.cut)
}

/// Carries bytes as far as they may pass. `None` stands for all of them, but later.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    gate: &Gate,
    may_pass: impl Fn(&[u8]) -> Option<usize>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let passed = if let Some(passed) = may_pass(&buffer[..length]) {
            passed
        } else {
            gate.waits.store(true, Ordering::Relaxed);
            gate.open.notified().await;
            gate.waits.store(false, Ordering::Relaxed);
            length
        };
        if to.write_all(&buffer[..passed]).await.is_err() || passed < length {
            break;
        }
    }
}
