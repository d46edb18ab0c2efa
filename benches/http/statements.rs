//! The statements of the references, written once: the bare handler and `pgbench` run the same text
//! and differ only in how a value gets in.

/// How a value is spelled in one dialect (`$1` or `:name`).
pub(crate) struct Values<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) amount: &'a str,
    pub(crate) due_on: &'a str,
    pub(crate) memo: &'a str,
    pub(crate) version: &'a str,
}

pub(crate) fn get(table: &str, id: &str) -> String {
    format!("select row_to_json(t)::text as doc, t.version from {table} t where t.id = {id}")
}

pub(crate) fn list(table: &str) -> String {
    format!(
        "select coalesce('[' || string_agg(row_to_json(t)::text, ',') || ']', '[]') as docs \
         from (select * from {table} order by id limit 50) t"
    )
}

pub(crate) fn put(table: &str, v: &Values<'_>) -> String {
    let Values { id, title, amount, due_on, memo, version } = v;
    format!(
        "update {table} as t set title = {title}, amount = {amount}, due_on = {due_on}, \
         memo = {memo}, version = t.version + 1 where t.id = {id} and t.version = {version} \
         returning row_to_json(t)::text as doc, t.version"
    )
}

pub(crate) fn post(table: &str, v: &Values<'_>) -> String {
    let Values { title, amount, due_on, memo, .. } = v;
    format!(
        "insert into {table} as t (title, amount, due_on, memo) \
         values ({title}, {amount}, {due_on}, {memo}) \
         returning row_to_json(t)::text as doc, t.version, t.id::text as id"
    )
}
