//! Preconditions (API.md sections 3 to 4.2): every write, under every header, on a record in every
//! state. `rules` says what must come of it, `headers` what was sent, `cell` tries it out.
//!
//! What the contract leaves open was decided so:
//! - POST never creates under `If-Match`: no new record can be at a version that somebody saw.
//!   Where the body's id names a live record it is 409 `ALREADY_EXISTS` with that record, else 409
//!   `WRITE_CONFLICT` of kind `create_create` with no current version.
//! - POST has nothing to do with `If-None-Match`: it only ever creates. A broken one is 400.
//! - POST with the id of a deleted record creates it anew, and the version continues.
//! - PUT creates under `If-None-Match: *` alone; otherwise it is 404, or 410 after a deletion.
//! - A broken header is 400 before anything is looked up; route and media type come before it.
//! - 404 and 410 come before preconditions, and so before 428.
//! - 428 is about `If-Match`, so it comes before what `If-None-Match` says. POST to a resource, and
//!   PUT under `If-None-Match: *`, need no `If-Match`.
//! - `strict_etags` is the strong comparison of `If-Match`; `If-None-Match` is compared weakly
//!   (RFC 9110 §13.1.2), so `W/"7"` still names version 7 there. A bare 7 is read as before.

mod already_applied;
mod cell;
mod dry_run;
mod headers;
mod matrix;
mod order;
mod pushes;
mod reads;
mod rules;
