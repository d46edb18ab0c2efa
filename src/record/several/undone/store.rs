//! Finds the refusals that tell of rows which the same request wrote, and has those writes judged once
//! more when nothing of it stands.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use crate::db::fault::Fault;
use crate::db::transaction;
use crate::record::several::undone::{Tells, alike, changed};
use crate::record::several::{Ended, Place};
use crate::record::{Outcome, Write, store};

/// A refusal that may tell of what the same request wrote, and the place of that, where it is known.
struct Doubtful {
    place: usize,
    earlier: Option<usize>,
}

/// Undoes all, and makes refusals tell of nothing that is undone: each that may have is judged again by
/// itself. `settled` has the writes that are based on others, as they ran.
///
/// # Errors
/// What the database could not do, where that concerns all.
pub(in crate::record::several) async fn revise(
    conn: &mut PgConnection,
    places: &[Place<'_>],
    settled: &HashMap<usize, Write>,
    ended: &mut [Ended],
) -> Result<(), Fault> {
    let doubtful = find(conn, places, ended).await?;
    if doubtful.is_empty() {
        return Ok(());
    }
    transaction::start_over(conn).await?;
    let mut answers = true;
    for Doubtful { place, earlier } in doubtful {
        let Some(write) = alone(places, settled, ended, place) else { continue };
        let again = if answers { judge(conn, &write).await? } else { None };
        answers &= again.is_some();
        let (Some(at), Some(slot)) = (places.get(place), ended.get_mut(place)) else { continue };
        *slot = match (std::mem::replace(slot, Ended::Left), again) {
            (Ended::Run(outcome, _), Some(again))
                if !at.holds(&again) && alike(&outcome, &again) =>
            {
                Ended::Run(again, None)
            }
            (Ended::Run(outcome, _), _) => Ended::Undone(outcome, earlier),
            (ended, _) => ended,
        };
    }
    Ok(())
}

/// What a write comes to by itself; `None` where the database cannot do it for now, which is no reason to
/// keep back the answer to the others.
async fn judge(conn: &mut PgConnection, write: &Write) -> Result<Option<Outcome>, Fault> {
    let again = match store::write(conn, write).await {
        Ok(outcome) => Some(outcome),
        Err(fault) if fault == Fault::Retry || fault.breaks_connection() => return Err(fault),
        Err(_) => None,
    };
    transaction::back(conn).await?;
    Ok(again)
}

/// The refusals in doubt, in order.
async fn find(
    conn: &mut PgConnection,
    places: &[Place<'_>],
    ended: &[Ended],
) -> Result<Vec<Doubtful>, Fault> {
    let run = places.iter().zip(ended).enumerate().filter_map(|(place, (at, ended))| {
        let (Ok(write), Ended::Run(outcome, _)) = (&at.write, ended) else { return None };
        Some((place, write.as_ref(), outcome))
    });
    let writers: Vec<_> =
        run.clone().filter_map(|(place, write, out)| Some((changed(write, out)?, place))).collect();
    if writers.is_empty() {
        return Ok(Vec::new());
    }
    let only = if let [(_, place)] = writers.as_slice() { Some(*place) } else { None };
    let (mut doubtful, mut told) = (Vec::new(), Vec::new());
    for (place, write, outcome) in run.filter(|(place, _, out)| !places[*place].holds(out)) {
        match Tells::of(write, outcome) {
            Tells::Nothing => {}
            Tells::Something => doubtful.push(Doubtful { place, earlier: only }),
            Tells::Record(id) => told.push((place, write.resource.name.as_str(), id)),
        }
    }
    if !told.is_empty() {
        let writers: HashMap<_, Vec<_>> = gather(writers);
        for at in own(conn, &told).await? {
            let Some((place, resource, id)) = told.get(at) else { continue };
            let by = writers.get(&((*resource).to_owned(), id.clone()));
            let earlier = by.and_then(|by| by.iter().rev().find(|by| *by < place).or(by.last()));
            doubtful.push(Doubtful { place: *place, earlier: earlier.copied() });
        }
        doubtful.sort_unstable_by_key(|doubtful| doubtful.place);
    }
    Ok(doubtful)
}

fn gather(writers: Vec<((String, String), usize)>) -> HashMap<(String, String), Vec<usize>> {
    let mut gathered = HashMap::<_, Vec<_>>::with_capacity(writers.len());
    for (record, place) in writers {
        gathered.entry(record).or_default().push(place);
    }
    gathered
}

/// Which of these records this transaction changed last, as the change log has it: what triggers and
/// cascades did is there too.
async fn own(
    conn: &mut PgConnection,
    told: &[(usize, &str, String)],
) -> Result<HashSet<usize>, Fault> {
    let changed = sqlx::query_scalar::<_, i64>(
        "SELECT g.place FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS g(resource, id, place) \
         WHERE (SELECT c.xid FROM counterfoil.change AS c WHERE c.resource = g.resource AND c.id = g.id \
         ORDER BY c.version DESC LIMIT 1) = pg_current_xact_id()",
    );
    let resources: Vec<_> = told.iter().map(|(_, resource, _)| *resource).collect();
    let ids: Vec<_> = told.iter().map(|(.., id)| id.as_str()).collect();
    let changed = changed.bind(resources).bind(ids).fetch_all(conn).await?;
    Ok(changed.into_iter().filter_map(|place| usize::try_from(place - 1).ok()).collect())
}

/// A write as it would be without the others. What is based on a write that is undone is based on what
/// that one was based on.
fn alone<'w>(
    places: &'w [Place<'_>],
    settled: &'w HashMap<usize, Write>,
    ended: &[Ended],
    place: usize,
) -> Option<Cow<'w, Write>> {
    let own = |place: usize| match places.get(place)? {
        Place { based_on: Some(_), .. } => settled.get(&place),
        Place { write, .. } => write.as_deref().ok(),
    };
    let write = own(place)?;
    let mut root = place;
    while let Some(Place { based_on: Some(base), .. }) = places.get(root)
        && matches!(ended.get(*base), Some(Ended::Run(_, None)))
    {
        root = *base;
    }
    if root == place {
        return Some(Cow::Borrowed(write));
    }
    let base = own(root)?;
    let (precondition, had) = (base.precondition.clone(), base.had.clone());
    Some(Cow::Owned(Write { precondition, had, ..write.clone() }))
}
