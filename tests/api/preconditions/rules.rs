//! What must come of a write: the rules of API.md 4, in the order in which they are judged.

/// The version of every live record, and the last one of every deleted record.
pub(super) const CURRENT: i32 = 7;

/// The version under which a deletion is logged.
pub(super) const TOMBSTONE: i32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Post,
    Put,
    PatchJson,
    PatchMerge,
    JsonPatch,
    Delete,
    Increment,
}

impl Verb {
    pub(super) const ALL: [Self; 7] = [
        Self::Post,
        Self::Put,
        Self::PatchJson,
        Self::PatchMerge,
        Self::JsonPatch,
        Self::Delete,
        Self::Increment,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    Deleted,
    NeverSeen,
}

impl State {
    pub(super) const ALL: [Self; 3] = [Self::Live, Self::Deleted, Self::NeverSeen];
}

/// What one of the two headers asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    Absent,
    /// `*`
    Any,
    /// Any of these; none at all where no tag is one of ours.
    Versions(&'static [i32]),
    Malformed,
}

impl Demand {
    /// Whether it names the current version of a live record.
    fn names_current(self) -> bool {
        match self {
            Self::Any => true,
            Self::Versions(versions) => versions.contains(&CURRENT),
            Self::Absent | Self::Malformed => false,
        }
    }

    /// What a conflict calls `your_version`.
    pub(super) fn newest(self) -> Option<i32> {
        match self {
            Self::Versions(versions) => versions.iter().max().copied(),
            Self::Absent | Self::Any | Self::Malformed => None,
        }
    }
}

/// What `counterfoil.toml` says about the resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) strict_etags: bool,
    pub(super) require_if_match: bool,
    pub(super) conflict_status: u16,
}

pub(super) const DEFAULTS: Settings =
    Settings { strict_etags: false, require_if_match: false, conflict_status: 409 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// 201, at this version.
    Created(i32),
    /// 200, the version raised by one.
    Written,
    /// 204 of a DELETE.
    Removed,
    /// 400 `INVALID_IF_MATCH`
    Malformed,
    /// 404 `NOT_FOUND`
    NotFound,
    /// 410 `RECORD_DELETED`
    Gone,
    /// 409 `ALREADY_EXISTS`
    Taken,
    /// 409 `WRITE_CONFLICT`, and there is no record
    NothingToMatch,
    /// 409 `WRITE_CONFLICT` with the current record
    Conflict,
    /// 412 `PRECONDITION_FAILED`
    Unwanted,
    /// 428 `PRECONDITION_REQUIRED`
    Required,
}

/// The rules.
pub(super) fn outcome(
    verb: Verb,
    state: State,
    if_match: Demand,
    if_none_match: Demand,
    settings: Settings,
) -> Outcome {
    let unguarded = if_match == Demand::Absent;
    let wants_absence = if_none_match == Demand::Any;
    let creates = verb == Verb::Post || (verb == Verb::Put && wants_absence);

    if if_match == Demand::Malformed || if_none_match == Demand::Malformed {
        return Outcome::Malformed;
    }
    if verb == Verb::Post && state == State::Live {
        return Outcome::Taken;
    }
    if creates && unguarded && state == State::Deleted {
        return Outcome::Created(TOMBSTONE + 1);
    }
    if creates && unguarded && state == State::NeverSeen {
        return Outcome::Created(1);
    }
    if verb == Verb::Post {
        return Outcome::NothingToMatch;
    }
    match state {
        State::NeverSeen => return Outcome::NotFound,
        State::Deleted => return Outcome::Gone,
        State::Live => {}
    }
    if settings.require_if_match && unguarded && !(verb == Verb::Put && wants_absence) {
        return Outcome::Required;
    }
    if !unguarded && !if_match.names_current() {
        return Outcome::Conflict;
    }
    if if_none_match.names_current() {
        return Outcome::Unwanted;
    }
    match verb {
        Verb::Delete => Outcome::Removed,
        _ => Outcome::Written,
    }
}
