//! How PostgreSQL reads a page.

use counterfoil::catalog::Catalog;
use counterfoil::feed::store::statement;
use sqlx::AssertSqlSafe;

use super::start;

/// Both bounds are conditions of the index, and its order is the page's: nothing is sorted, and nothing
/// read that is not looked at.
#[tokio::test]
async fn a_page_is_a_range_of_the_index() {
    let server = start().await;
    server
        .sql(
            "INSERT INTO notes SELECT i, repeat('x', 100) FROM generate_series(1, 30000) i;
             INSERT INTO tasks SELECT i, '2026-01-01' FROM generate_series(1, 300) i;
             ANALYZE counterfoil.change",
        )
        .await;
    let mut conn = server.connect().await;
    let text = statement(&Catalog::default());
    let prepare =
        format!("PREPARE page (text, int8, int8, text[], int8, int8, int8, bool) AS {text}");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut conn).await.unwrap();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        sqlx::raw_sql(AssertSqlSafe(format!("SET plan_cache_mode = {mode}")))
            .execute(&mut conn)
            .await
            .unwrap();
        for names in ["{notes,tasks}", "{tasks}"] {
            let explain = format!(
                "EXPLAIN (COSTS OFF) EXECUTE page ('5', 0, 501, '{names}', 500, 4194304, NULL, false)"
            );
            let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explain))
                .persistent(false)
                .fetch_all(&mut conn)
                .await
                .unwrap();
            let plan = plan.join("\n");
            let scan = plan.find("Index Scan using change_feed on change c").expect(&plan);
            let condition = plan[scan..].lines().nth(1).unwrap();
            assert!(condition.contains("Index Cond"), "{plan}");
            assert!(condition.contains("xid < pg_snapshot_xmin"), "{plan}");
            assert!(
                condition.contains("ROW(c.xid, c.seq) > ROW(")
                    || condition.contains("ROW(xid, seq) > ROW("),
                "{plan}"
            );
            assert!(!plan.contains("Sort") && !plan.contains("Seq Scan on change"), "{plan}");
        }
    }
}
