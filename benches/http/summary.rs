//! The figures that are looked at first, in as few cells as they fit in.

use crate::figure::Figure;
use crate::number::{self, NONE, thousands};
use crate::table::Table;
use crate::workload::Workload;

/// The numbers of clients whose figures stand side by side in a cell.
const CLIENTS: [usize; 2] = [32, 128];

type Of = fn(&Figure) -> Result<f64, &'static str>;

const PGBENCH: Of = |figure| number::median(&figure.pgbench, |rate| rate.per_second);
const BARE: Of = |figure| number::median(&figure.bare, |sample| sample.rate);
const SUBJECT: Of = |figure| number::median(&figure.subject, |sample| sample.rate);

/// Who reached what: a row for each party, a column for each kind of request.
pub(crate) fn table(plain: &[Figure], logged: &[Figure]) -> Table {
    let heads = ["", "GET one row", "conditional PUT", "conditional PUT, history"];
    let columns = [(plain, Workload::Get), (plain, Workload::Put), (logged, Workload::Put)];
    let row = |name: &str, cell: &dyn Fn(&Figure) -> String| {
        let mut row = vec![name.to_owned()];
        row.extend(columns.map(|(figures, workload)| {
            let both = CLIENTS.map(|clients| {
                find(figures, workload, clients).map_or_else(|| NONE.to_owned(), cell)
            });
            both.join(" / ")
        }));
        row
    };
    let rate = |of: Of| move |figure: &Figure| of(figure).map_or_else(str::to_owned, thousands);
    let mut table = Table::new(&heads);
    table.push(row("`pgbench`, the same statement without HTTP", &rate(PGBENCH)));
    table.push(row("bare handler: axum and a sqlx pool", &rate(BARE)));
    table.push(row("**Counterfoil**", &rate(SUBJECT)));
    table.push(row("Counterfoil ÷ `pgbench`", &|figure| {
        let ratio = SUBJECT(figure).and_then(|ours| Ok(ours / PGBENCH(figure)?));
        ratio.map_or_else(str::to_owned, |ratio| format!("{ratio:.2}"))
    }));
    table
}

/// The figure of a workload at a number of clients.
pub(crate) fn find(figures: &[Figure], workload: Workload, clients: usize) -> Option<&Figure> {
    figures.iter().find(|figure| figure.workload == workload && figure.clients == clients)
}
