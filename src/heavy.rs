//! Computation that may take long: merging documents of many thousand elements takes tens of
//! milliseconds and more, in which the thread must not keep other requests waiting.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// From how many bytes on a document counts as large.
const LARGE: usize = 64 << 10;

/// Computes something over `bytes` of documents; where they are large, the thread's other tasks move
/// to another one meanwhile.
pub fn compute<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let many_threads =
        Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes >= LARGE && many_threads { block_in_place(work) } else { work() }
}
