//! A record's form: to change one, to create one. Whatever comes of a submitted form, all that was
//! typed stands in the page that answers.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use axum::response::Response;

use crate::catalog::key::Key;
use crate::catalog::kind::Kind;
use crate::catalog::{Catalog, Column, Resource};
use crate::console::difference::Shown;
use crate::console::field::{Field, Link};
use crate::console::flash::{Flash, What};
use crate::console::form::{self, Errors, Submitted};
use crate::console::here::{self, Here, Sent};
use crate::console::reply::{self, Failure, Shell};
use crate::console::value::{self, Written};
use crate::console::write::{self, Draft};
use crate::console::{gone, resolve, words};
use crate::error::{Code, Error};
use crate::http::App;
use crate::merge::Row;
use crate::record::history::Entry;
use crate::record::store::Found;
use crate::record::{Outcome, conflict};
use crate::version::Version;

#[derive(Template)]
#[template(path = "record.html")]
struct Page<'p> {
    shell: Shell,
    resource: &'p Resource,
    title: String,
    /// The record's address; the resource's where it is yet to come to be.
    address: String,
    /// The version that the form was made from; `None` for a new record.
    version: Option<Version>,
    saved: Option<Saved>,
    fields: Vec<Field>,
    kept: Vec<Fixed>,
    problem: Option<Problem>,
}

/// Who saved the version that is shown.
struct Saved {
    by: String,
    at: String,
    op: String,
}

/// A field that no form sets.
pub(super) struct Fixed {
    /// What people call it.
    pub(super) label: String,
    /// The column's comment.
    pub(super) hint: Option<String>,
    /// The value.
    pub(super) shown: Shown,
    /// The record that it refers to.
    pub(super) link: Option<Link>,
}

impl Fixed {
    fn new(column: &Column, values: &Row) -> Self {
        Self {
            label: words::label(&column.name),
            hint: column.comment.clone(),
            shown: Shown::whole(&column.kind, values.get(&column.name)),
            link: None,
        }
    }
}

/// Why the form was not taken.
pub(super) struct Problem {
    /// In one sentence.
    pub(super) message: String,
    /// The inputs to look at.
    pub(super) links: Vec<Link>,
    /// Whether nothing is wrong with the form itself.
    pub(super) again: bool,
}

impl Problem {
    /// The problem as its fields and its error have it.
    pub(super) fn of(fields: &[Field], error: Option<&Error>) -> Option<Self> {
        let wrong = fields.iter().filter_map(|field| {
            Some(Link { address: format!("#{}", field.id), text: field.error.clone()? })
        });
        let links: Vec<_> = wrong.collect();
        let again = error.is_some_and(|error| error.status() >= 500);
        let message = match error {
            Some(error) if links.is_empty() || again => error.message().to_owned(),
            _ if links.is_empty() => return None,
            _ => format!(
                "Not saved: {} to be looked at.",
                words::count(links.len(), "field needs", "fields need")
            ),
        };
        Some(Self { message, links, again })
    }
}

/// `GET /console/{resource}/{id}`
pub(super) async fn page(State(app): State<App>, here: Here) -> Result<Response, Failure> {
    let key = here.key()?;
    match write::read(&app, &here, &key).await? {
        Found::Missing => Err(conflict::missing(&here.resource).into()),
        Found::Gone(gone) => Ok(gone::answer(&here, &key, gone, Vec::new(), None)),
        Found::Row(row) => {
            let newest = write::versions(&app, &here, &key, None, 1).await?.0.pop();
            let values = parse(&row.json);
            let fields = fields(&here, &values, None, &Errors::new());
            Ok(existing(&here, &key, row.version, &values, newest, fields, None))
        }
    }
}

/// `POST /console/{resource}/{id}`
pub(super) async fn save(
    State(app): State<App>,
    Sent { here, key, form }: Sent,
) -> Result<Response, Failure> {
    let base = form.version("base")?;
    if let Some(error) = form::stray(&here.resource, &form) {
        return again(&app, &here, &key, &form, Errors::new(), Some(error)).await;
    }
    let changes = form::changes(&here.resource, &form);
    if !changes.errors.is_empty() {
        return again(&app, &here, &key, &form, changes.errors, None).await;
    }
    if changes.members.is_empty() {
        return Ok(reply::done(&here, &key, What::Unchanged, base));
    }
    let members = changes.members.clone();
    let draft = Draft::patch(&here, &key, base, changes.members);
    if let Err(error) = &draft.change {
        // Told at once: beside a conflict it would hide what was typed.
        let error = error.clone();
        return again(&app, &here, &key, &form, form::errors_of(&error), Some(error)).await;
    }
    let written = draft.write(&app, &here);
    let done = |what, version| Ok(reply::done(&here, &key, what, version));
    match written.await {
        Ok(Outcome::Applied(row)) => done(What::Saved, row.version),
        Ok(Outcome::AlreadyApplied(row)) => done(What::Already, row.version),
        Ok(Outcome::Conflict(_)) => match resolve::meet(&app, &here, &key, base, members).await {
            Ok(page) => Ok(page),
            Err(error) => {
                let errors = form::errors_of(&error);
                again(&app, &here, &key, &form, errors, Some(error)).await
            }
        },
        Ok(Outcome::Gone(gone)) => Ok(gone::answer(&here, &key, gone, members, None)),
        Ok(Outcome::Refused(error)) | Err(error) => {
            let errors = form::errors_of(&error);
            again(&app, &here, &key, &form, errors, Some(error)).await
        }
        Ok(_) => Err(conflict::missing(&here.resource).into()),
    }
}

/// The same form again, with all that was typed and with what is wrong.
async fn again(
    app: &App,
    here: &Here,
    key: &Key,
    form: &Submitted,
    errors: Errors,
    error: Option<Error>,
) -> Result<Response, Failure> {
    let base = form.version("base")?;
    // What is not in the form is shown as it stands; where even that cannot be read, the form alone.
    let values = match write::read(app, here, key).await {
        Ok(Found::Row(row)) => parse(&row.json),
        _ => Row::default(),
    };
    let fields = fields(here, &values, Some(form), &errors);
    let fallback = Error::new(Code::InvalidValue, "");
    let told = error.unwrap_or(fallback);
    Ok(existing(here, key, base, &values, None, fields, Some(&told)))
}

fn existing(
    here: &Here,
    key: &Key,
    version: Version,
    values: &Row,
    newest: Option<Entry>,
    fields: Vec<Field>,
    error: Option<&Error>,
) -> Response {
    let resource = &here.resource;
    let title = title(resource, values, key);
    let problem = error.and_then(|error| Problem::of(&fields, Some(error)));
    let prefix = if problem.is_some() { "Not saved – " } else { "" };
    let page = Page {
        shell: here.shell(format!("{prefix}{title}"), Some((key, &title)), None),
        resource,
        title,
        address: here::address(resource, key),
        version: Some(version),
        saved: newest.map(|entry| Saved {
            at: value::moment(&entry.at),
            by: entry.by.unwrap_or_else(|| "somebody before the log began".to_owned()),
            op: entry.op,
        }),
        kept: fixed(here, values),
        fields,
        problem,
    };
    reply::page(error.map_or(200, Error::status), &page)
}

/// `GET /console/{resource}/-/new`
pub(super) async fn blank(here: Here) -> Response {
    let fields = blank_fields(&here, None, &Errors::new());
    unborn(&here, fields, None)
}

/// `POST /console/{resource}`
pub(super) async fn create(
    State(app): State<App>,
    here: Here,
    request: Request,
) -> Result<Response, Failure> {
    let form = here::form(&app, request).await?;
    let changes = form::changes(&here.resource, &form);
    let (errors, error) = if let Some(error) = form::stray(&here.resource, &form) {
        (changes.errors, error)
    } else if changes.errors.is_empty() {
        let draft = Draft::create(&here, changes.members);
        match draft.write(&app, &here).await {
            Ok(Outcome::Created(row, key)) => {
                let address = here::address(&here.resource, &key);
                let flash = Flash::new(What::Created, row.version, address.as_str());
                return Ok(reply::see_other(&address, Some(&flash)));
            }
            Ok(Outcome::Refused(error)) | Err(error) => (form::errors_of(&error), error),
            Ok(_) => return Err(conflict::missing(&here.resource).into()),
        }
    } else {
        (changes.errors, Error::new(Code::InvalidValue, ""))
    };
    let fields = blank_fields(&here, Some(&form), &errors);
    Ok(unborn(&here, fields, Some(&error)))
}

fn unborn(here: &Here, fields: Vec<Field>, error: Option<&Error>) -> Response {
    let resource = &here.resource;
    let problem = error.and_then(|error| Problem::of(&fields, Some(error)));
    let prefix = if problem.is_some() { "Not saved – " } else { "" };
    let title = format!("New row in {}", words::label(&resource.name));
    let page = Page {
        shell: here.shell(format!("{prefix}{title}"), None, Some("New")),
        resource,
        title,
        address: here::list(resource),
        version: None,
        saved: None,
        kept: Vec::new(),
        fields,
        problem,
    };
    reply::page(error.map_or(200, Error::status), &page)
}

/// The inputs of an existing record: as it stands, or as a form was submitted.
fn fields(here: &Here, values: &Row, form: Option<&Submitted>, errors: &Errors) -> Vec<Field> {
    let resource = &here.resource;
    let places = resource.writable().map(|(place, _)| place);
    let field = |place: usize| {
        let column = &resource.columns[place];
        let stands = value::write(column, values.get(&column.name));
        let original = match form {
            Some(form) if form.of("o", column).is_some() => form.original(column),
            _ => stands.clone(),
        };
        let written = form.and_then(|form| form.typed(column)).unwrap_or(stands);
        let mut field = Field::new(resource, place, &written, false).beginning_with(&original);
        field.error = errors.get(&column.name).cloned();
        field.link = link(&here.catalog, resource, &column.name, values);
        field
    };
    places.map(field).collect()
}

/// The inputs of a record that is to be.
fn blank_fields(here: &Here, form: Option<&Submitted>, errors: &Errors) -> Vec<Field> {
    let resource = &here.resource;
    let writable = resource.columns.iter().enumerate().filter(|(_, c)| c.writable());
    let field = |(place, column)| {
        let nothing = Written::nothing();
        let typed = form.and_then(|form| form.typed(column));
        let written = typed.unwrap_or_else(|| nothing.clone());
        let mut field = Field::new(resource, place, &written, true).beginning_with(&nothing);
        // A key that is a UUID is made where none is given.
        field.required &= !(resource.key.contains(&place) && column.kind == Kind::Uuid);
        field.error = errors.get(&column.name).cloned();
        field
    };
    writable.map(field).collect()
}

/// What the record holds besides its inputs.
pub(super) fn fixed(here: &Here, values: &Row) -> Vec<Fixed> {
    let resource = &here.resource;
    let places = resource.columns.iter().enumerate().filter(|(place, column)| {
        let input = column.writable() && !resource.key.contains(place);
        !column.hidden && !input && *place != resource.version
    });
    let fixed = places.map(|(_, column)| Fixed {
        link: link(&here.catalog, resource, &column.name, values),
        ..Fixed::new(column, values)
    });
    fixed.collect()
}

/// The inputs that nobody touched, apart from these.
pub(super) fn untouched(here: &Here, values: &Row, touched: &[&str]) -> Vec<Fixed> {
    let columns = here.resource.readable();
    let columns = columns.filter(|c| !touched.contains(&c.name.as_str()));
    columns.map(|column| Fixed::new(column, values)).collect()
}

/// All values of a row that is not to be changed.
pub(super) fn all(here: &Here, values: &Row) -> Vec<Fixed> {
    untouched(here, values, &[])
}

/// The way to the record that a column refers to, where its table is a resource and the reference
/// is to its key.
pub(super) fn link(
    catalog: &Arc<Catalog>,
    resource: &Resource,
    column: &str,
    values: &Row,
) -> Option<Link> {
    let references = resource.references.iter();
    let reference = references.filter(|r| r.columns.iter().any(|c| c == column));
    reference.into_iter().find_map(|reference| {
        let target = catalog.resources().find(|r| r.table == reference.table)?;
        let part = |key: &str| {
            let at = reference.targets.iter().position(|target| target == key)?;
            match values.get(&reference.columns[at])? {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            }
        };
        let parts: Option<Vec<String>> = target.key_columns().map(|c| part(&c.name)).collect();
        let key = Key { parts: parts? };
        Some(Link {
            address: here::address(target, &key),
            text: format!("Open in {}", words::label(&target.name)),
        })
    })
}

/// A row's JSON as named values.
pub(super) fn parse(json: &str) -> Row {
    serde_json::from_str(json).unwrap_or_default()
}

/// Where the column stands that names a record to people.
pub(super) fn title_column(resource: &Resource) -> Option<usize> {
    let [key] = resource.key.as_slice() else {
        return None;
    };
    if resource.columns[*key].kind != Kind::Uuid {
        return None;
    }
    let named =
        |column: &Column| !column.hidden && column.not_null && matches!(column.kind, Kind::Text(_));
    resource.columns.iter().position(named)
}

/// What people call a record.
pub(super) fn title(resource: &Resource, values: &Row, key: &Key) -> String {
    let column = title_column(resource).map(|place| &resource.columns[place]);
    let named = column.and_then(|column| values.get(&column.name)?.as_str());
    match named {
        Some(name) if !name.trim().is_empty() => name.to_owned(),
        _ => key.parts.join(", "),
    }
}
