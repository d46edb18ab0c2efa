//! How fast the disk is at the moment. Disks of virtual machines give bursts: the same disk may sync
//! ten times as fast in one second as in the next, and a figure of durable commits with it.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Fallible;

const PROBE: Duration = Duration::from_millis(100);
const BLOCK: [u8; 8192] = [1; 8192];

/// Syncs per second of one block after another, as one client's commits do it.
pub(crate) fn syncs_per_second(directory: &Path) -> Fallible<f64> {
    let path = directory.join("disk-probe");
    let file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
    let start = Instant::now();
    let mut count = 0_u32;
    while start.elapsed() < PROBE {
        file.write_all_at(&BLOCK, u64::from(count % 64) * 8192)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}
