//! The page for two people's changes to one record: what needs a decision, what combines by itself,
//! what nobody touched. The verdicts are the API's; here they are put before a person.

use askama::Template;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::console::difference::Shown;
use crate::console::field::{Choice, Field, Link};
use crate::console::form::{self, Errors, Submitted};
use crate::console::here::{self, Here};
use crate::console::record::{self, Fixed, Problem};
use crate::console::reply::{self, Shell};
use crate::console::value;
use crate::console::words;
use crate::error::Error;
use crate::json::Member;
use crate::merge::{FieldVerdict, Verdict};
use crate::record::{Conflict, conflict as answers};
use crate::version::Version;

/// What a visitor wants of a record that moved.
#[derive(Debug)]
pub(super) struct Asked {
    /// The version that the visitor began with.
    pub(super) base: Version,
    /// The visitor's changes.
    pub(super) yours: Vec<Member>,
    /// The merge form, where this is not the first time.
    pub(super) form: Option<Submitted>,
    /// What is wrong with the fields decided on.
    pub(super) errors: Errors,
    /// Why the merge was not taken.
    pub(super) error: Option<Error>,
    /// Whether decisions are missing and that is to be said.
    pub(super) incomplete: bool,
}

impl Asked {
    /// The first meeting with the other's change.
    pub(super) fn first(base: Version, yours: Vec<Member>) -> Self {
        Self { base, yours, form: None, errors: Errors::new(), error: None, incomplete: false }
    }
}

/// Fields that are decided on as one, and what was decided.
#[derive(Debug)]
pub(super) struct Unit {
    /// The fields.
    pub(super) fields: Vec<FieldVerdict>,
    /// Whose value stands.
    pub(super) decision: Option<Decision>,
    /// Whether the saved value moved since the form was made, so that a decision on it is void.
    pub(super) moved: bool,
}

/// Whose value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// What is saved.
    Theirs,
    /// What the visitor wants.
    Mine,
    /// Both, combined by the field's rule.
    Merged,
    /// What the visitor types now.
    Edit,
}

impl Decision {
    const WORDS: [(Self, &'static str); 4] = [
        (Self::Theirs, "theirs"),
        (Self::Mine, "mine"),
        (Self::Merged, "merged"),
        (Self::Edit, "edit"),
    ];

    fn word(self) -> &'static str {
        let known = Self::WORDS.iter().find(|(decision, _)| *decision == self);
        known.map_or("", |(_, word)| word)
    }

    fn read(word: &str) -> Option<Self> {
        let known = Self::WORDS.iter().find(|(_, known)| *known == word);
        known.map(|(decision, _)| *decision)
    }
}

impl Unit {
    fn verdict(&self) -> Verdict {
        self.fields.first().map_or(Verdict::Same, |f| f.verdict)
    }

    /// Whether it is for a person to decide.
    pub(super) fn clashes(&self) -> bool {
        self.verdict() == Verdict::Both
    }

    fn key(&self) -> String {
        self.fields.first().map_or_else(String::new, |f| words::encode(&f.field))
    }

    fn label(&self) -> String {
        let labels: Vec<_> = self.fields.iter().map(|f| words::label(&f.field)).collect();
        words::listed(&labels)
    }

    /// What may be decided, in the order in which it is offered.
    fn offers(&self) -> &'static [Decision] {
        match self.verdict() {
            Verdict::Same => &[],
            Verdict::Merged => {
                &[Decision::Merged, Decision::Theirs, Decision::Mine, Decision::Edit]
            }
            _ => &[Decision::Theirs, Decision::Mine, Decision::Edit],
        }
    }

    fn preset(&self) -> Option<Decision> {
        match self.verdict() {
            Verdict::Both => None,
            Verdict::Yours => Some(Decision::Mine),
            Verdict::Merged => Some(Decision::Merged),
            Verdict::Theirs | Verdict::Same => Some(Decision::Theirs),
        }
    }
}

/// Puts the verdicts into units, with the decisions of a form where the saved value did not move.
pub(super) fn units(
    resource: &Resource,
    verdicts: Vec<FieldVerdict>,
    form: Option<&Submitted>,
) -> Vec<Unit> {
    let rules = &resource.settings.merge;
    let group = |field: &str| rules.groups.iter().position(|g| g.iter().any(|f| f == field));
    let mut units: Vec<Unit> = Vec::new();
    for field in verdicts {
        let clashes = field.verdict == Verdict::Both;
        let together = units.iter_mut().find(|unit| {
            let first = unit.fields.first();
            let other = first.and_then(|f| group(&f.field));
            clashes && unit.clashes() && other.is_some() && other == group(&field.field)
        });
        match together {
            Some(unit) => unit.fields.push(field),
            None => units.push(Unit { fields: vec![field], decision: None, moved: false }),
        }
    }
    for unit in &mut units {
        unit.moved = form.is_some_and(|form| moved(resource, unit, form));
        let kept = form.filter(|_| !unit.moved);
        let decided = kept.and_then(|form| form.get(&format!("d.{}", unit.key())));
        let decision = decided.and_then(Decision::read);
        unit.decision =
            decision.filter(|decision| unit.offers().contains(decision)).or(unit.preset());
    }
    units
}

/// Whether the form was made when another value was saved.
fn moved(resource: &Resource, unit: &Unit, form: &Submitted) -> bool {
    let rules = &resource.settings.merge;
    unit.fields.iter().any(|field| {
        let name = words::encode(&field.field);
        let seen = form.get(&format!("t.{name}"));
        let seen = seen.map(|text| serde_json::from_str::<Value>(text).ok());
        match seen {
            Some(seen) => !rules.same(&field.field, seen.as_ref(), field.theirs.as_ref()),
            // Not in the form: nobody had changed it then.
            None => form.get(&format!("d.{name}")).is_some(),
        }
    })
}

/// The values decided on that differ from what is saved.
///
/// # Errors
/// What is wrong, by field.
pub(super) fn chosen(
    resource: &Resource,
    units: &[Unit],
    form: &Submitted,
) -> Result<Vec<Member>, Errors> {
    let (mut members, mut errors) = (Vec::new(), Errors::new());
    for unit in units {
        for field in &unit.fields {
            match value_of(resource, unit, field, form) {
                Ok(value) => {
                    let rules = &resource.settings.merge;
                    if !rules.same(&field.field, Some(&value), field.theirs.as_ref()) {
                        members.extend(form::member(&field.field, value.to_string()));
                    }
                }
                Err(message) => {
                    errors.insert(field.field.clone(), message);
                }
            }
        }
    }
    if errors.is_empty() { Ok(members) } else { Err(errors) }
}

fn value_of(
    resource: &Resource,
    unit: &Unit,
    field: &FieldVerdict,
    form: &Submitted,
) -> Result<Value, String> {
    let value = |value: Option<&Value>| value.cloned().unwrap_or_default();
    let typed = typed(resource, field, form);
    // A choice that stood there by itself does not tell whether the text beside it is meant.
    let by_itself = unit.decision == unit.preset();
    if by_itself && matches!(typed, Ok(Some(_)) | Err(_)) {
        let label = words::label(&field.field);
        return Err(format!(
            "{label} was edited, but “Edit” is not chosen. Choose it, or take the edit back."
        ));
    }
    match unit.decision {
        None | Some(Decision::Theirs) => Ok(value(field.theirs.as_ref())),
        Some(Decision::Mine) => Ok(value(field.yours.as_ref())),
        Some(Decision::Merged) => Ok(value(field.merged.as_ref())),
        Some(Decision::Edit) => Ok(typed?.unwrap_or_else(|| value(prefilled(field)))),
    }
}

/// What was typed in a field's own input; `None` where that is as it came.
fn typed(
    resource: &Resource,
    field: &FieldVerdict,
    form: &Submitted,
) -> Result<Option<Value>, String> {
    let column = resource.column(&field.field);
    let Some((column, typed)) = column.and_then(|column| Some((column, form.typed(column)?)))
    else {
        return Ok(None);
    };
    match form::changed(column, &typed, &form.original(column))? {
        None => Ok(None),
        Some(json) => serde_json::from_str(&json)
            .map(Some)
            .map_err(|_| format!("{} cannot be read", words::label(&column.name))),
    }
}

/// What stands in the input where a value is typed anew.
fn prefilled(field: &FieldVerdict) -> Option<&Value> {
    match field.verdict {
        Verdict::Theirs => field.theirs.as_ref(),
        _ => field.yours.as_ref(),
    }
}

#[derive(Template)]
#[template(path = "merge.html")]
struct Page {
    shell: Shell,
    title: String,
    address: String,
    base: Version,
    current: Version,
    by: Option<String>,
    /// How the other side's values are headed.
    theirs: String,
    at: Option<String>,
    own: bool,
    base_known: bool,
    needed: Vec<Part>,
    combined: Vec<Part>,
    unchanged: Vec<Fixed>,
    moved: bool,
    undecided: Vec<Link>,
    problem: Option<Problem>,
}

/// A unit as the page shows it.
struct Part {
    id: String,
    key: String,
    label: String,
    /// How it came about, where it combines by itself.
    tag: String,
    tone: &'static str,
    options: Vec<Choice>,
    sides: Vec<Side>,
    moved: bool,
    missing: bool,
}

/// A field's three values.
struct Side {
    /// The field's name, where the unit has several.
    label: String,
    several: bool,
    original: Shown,
    theirs: Shown,
    yours: Shown,
    outcome: Option<Shown>,
    field: Field,
    hidden: Vec<(String, String)>,
}

/// The page that asks what is to become of both changes.
pub(super) fn answer(here: &Here, key: &Key, conflict: &Conflict, asked: &Asked) -> Response {
    let resource = &here.resource;
    let (Some(current), Some(sides)) = (&conflict.current, &conflict.sides) else {
        return reply::Failure::from(answers::missing(resource)).into_response();
    };
    let verdicts = sides.verdicts(resource);
    let units = units(resource, verdicts.fields, asked.form.as_ref());
    let by = conflict.by.as_ref().map(|by| by.by.clone());
    let own = here.visitor.named && by.as_deref() == Some(here.visitor.actor.as_str());
    let theirs = theirs_heading(by.as_deref(), own);
    let view = View { here, asked, theirs: &theirs };
    let mut parts: Vec<(bool, Part)> =
        units.iter().enumerate().map(|(i, unit)| (unit.clashes(), view.part(i, unit))).collect();
    let touched: Vec<&str> =
        units.iter().flat_map(|unit| unit.fields.iter().map(|f| f.field.as_str())).collect();
    let title = record::title(resource, sides.theirs(), key);
    let needed: Vec<Part> = parts.extract_if(.., |(clashes, _)| *clashes).map(|p| p.1).collect();
    let combined: Vec<Part> = parts.into_iter().map(|p| p.1).collect();
    let all = || needed.iter().chain(&combined);
    let inputs: Vec<Field> =
        all().flat_map(|part| part.sides.iter().map(|side| side.field.clone())).collect();
    let undecided = needed.iter().filter(|part| part.missing).map(Part::link);
    let moved = asked
        .form
        .as_ref()
        .is_some_and(|form| form.get("onto") != Some(current.version.to_string().as_str()));
    let status = if moved || asked.error.is_none() && asked.errors.is_empty() && !asked.incomplete {
        409
    } else {
        asked.error.as_ref().map_or(422, Error::status)
    };
    let page = Page {
        shell: here.shell(format!("Conflict – {title}"), Some((key, &title)), Some("Conflict")),
        address: here::address(resource, key),
        base: asked.base,
        current: current.version,
        at: conflict.by.as_ref().map(|by| value::moment(&by.at)),
        by,
        theirs,
        own,
        base_known: verdicts.base_available,
        undecided: undecided.collect(),
        problem: Problem::of(&inputs, asked.error.as_ref()),
        unchanged: record::untouched(here, sides.theirs(), &touched),
        title,
        needed,
        combined,
        moved,
    };
    reply::page(status, &page)
}

fn theirs_heading(by: Option<&str>, own: bool) -> String {
    match by {
        Some(_) if own => "Saved in another window".to_owned(),
        Some(by) => format!("Saved by {by}"),
        None => "Saved meanwhile".to_owned(),
    }
}

impl Part {
    fn link(&self) -> Link {
        Link { address: format!("#{}", self.id), text: self.label.clone() }
    }
}

struct View<'v> {
    here: &'v Here,
    asked: &'v Asked,
    theirs: &'v str,
}

impl View<'_> {
    fn part(&self, index: usize, unit: &Unit) -> Part {
        let (tag, tone) = match unit.verdict() {
            Verdict::Both => (String::new(), ""),
            Verdict::Yours => ("Your change".to_owned(), "yours"),
            Verdict::Theirs => (self.theirs.to_owned(), "theirs"),
            Verdict::Same => ("Both made the same change".to_owned(), "same"),
            Verdict::Merged => ("Merged from both".to_owned(), "merged"),
        };
        let offers = unit.offers().iter().map(|offer| Choice {
            value: offer.word().to_owned(),
            text: self.offer(*offer, unit.verdict()),
            chosen: unit.decision == Some(*offer),
        });
        let several = unit.fields.len() > 1;
        Part {
            id: format!("u{index}"),
            key: unit.key(),
            label: unit.label(),
            tag,
            tone,
            options: offers.collect(),
            sides: unit.fields.iter().filter_map(|f| self.side(f, several)).collect(),
            moved: unit.moved,
            missing: self.asked.incomplete && unit.decision.is_none(),
        }
    }

    fn offer(&self, offer: Decision, verdict: Verdict) -> String {
        match (offer, verdict) {
            (Decision::Theirs, Verdict::Yours) => "Leave the saved value".to_owned(),
            (Decision::Theirs, _) => format!("Use theirs ({})", lower_first(self.theirs)),
            (Decision::Mine, Verdict::Theirs) => "Put back the value I started from".to_owned(),
            (Decision::Mine, _) => "Use mine".to_owned(),
            (Decision::Merged, _) => "Use both, merged".to_owned(),
            (Decision::Edit, _) => "Edit".to_owned(),
        }
    }

    fn side(&self, verdict: &FieldVerdict, several: bool) -> Option<Side> {
        let resource = &self.here.resource;
        let place = resource.columns.iter().position(|c| c.name == verdict.field)?;
        let column = &resource.columns[place];
        let kind = &column.kind;
        let FieldVerdict { base, yours, theirs, .. } = verdict;
        let from = value::write(column, prefilled(verdict));
        let typed = self.asked.form.as_ref().and_then(|form| form.typed(column));
        let mut field = Field::new(resource, place, &typed.unwrap_or_else(|| from.clone()), false)
            .beginning_with(&from);
        field.required = false;
        field.error = self.asked.errors.get(&verdict.field).cloned();
        let mut hidden = Vec::new();
        let mut keep = |prefix: &str, value: Option<&Value>| {
            let name = format!("{prefix}.{}", field.key);
            hidden.extend(value.map(|value| (name, value.to_string())));
        };
        keep("t", theirs.as_ref());
        if verdict.verdict != Verdict::Theirs {
            keep("y", yours.as_ref());
        }
        let outcome = match verdict.verdict {
            Verdict::Both => None,
            Verdict::Yours => Some(yours),
            Verdict::Merged => Some(&verdict.merged),
            Verdict::Theirs | Verdict::Same => Some(theirs),
        };
        Some(Side {
            label: field.label.clone(),
            several,
            original: Shown::original(kind, base.as_ref()),
            theirs: Shown::against(kind, base.as_ref(), theirs.as_ref()),
            yours: Shown::against(kind, base.as_ref(), yours.as_ref()),
            outcome: outcome.map(|value| Shown::against(kind, base.as_ref(), value.as_ref())),
            field,
            hidden,
        })
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(chars).collect()
}
