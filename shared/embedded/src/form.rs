//! The form of the database, in its `user_version`, and how an older one becomes today's.

use std::path::Path;

use rusqlite::Connection;

use crate::options::OpenError;

/// The oldest form that can be opened: no release has had another.
const OLDEST: i64 = 8;

/// Statements that make each form the next one, from the oldest on. `schema.sql` makes today's.
const STEPS: [&str; 0] = [];

/// Makes the tables of a new database, or brings those of an older form up to date.
pub(crate) fn make_tables(connection: &Connection, folder: &Path) -> Result<(), OpenError> {
    match form(connection)? {
        0 if has_tables(connection)? => Err(OpenError::Foreign(folder.to_owned())),
        0 => Ok(execute(connection, include_str!("schema.sql"))?),
        _ => bring_up_to_date(connection, folder, (OLDEST, &STEPS)),
    }
}

fn form(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    let any = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)";
    connection.query_row(any, [], |row| row.get(0))
}

fn execute(connection: &Connection, statements: &str) -> rusqlite::Result<()> {
    connection.execute_batch(&format!("BEGIN IMMEDIATE;\n{statements}\nCOMMIT;")).inspect_err(
        |_| {
            // Fails if nothing has begun.
            let _ = connection.execute_batch("ROLLBACK");
        },
    )
}

/// Takes the steps that are missing, each with its number: a process that dies goes on at the next start.
fn bring_up_to_date(
    connection: &Connection,
    folder: &Path,
    (oldest, steps): (i64, &[&str]),
) -> Result<(), OpenError> {
    let form = form(connection)?;
    let (folder, newest) = (folder.to_owned(), (oldest..).nth(steps.len()).unwrap_or(oldest));
    if form > newest {
        return Err(OpenError::NewerForm { folder, form, newest });
    }
    if form < oldest {
        return Err(OpenError::OlderForm { folder, form, oldest });
    }
    for (from, step) in (oldest..).zip(steps).skip_while(|(from, _)| *from < form) {
        execute(connection, &format!("{step};\nPRAGMA user_version = {};", from + 1))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [&str; 2] = [
        "ALTER TABLE t ADD COLUMN b DEFAULT 'x'",
        "UPDATE t SET b = 'y'; DELETE FROM t WHERE a > 1",
    ];

    fn of_form(form: i64) -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        let tables = "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)";
        connection.execute_batch(&format!("{tables}; PRAGMA user_version = {form}")).expect("made");
        connection
    }

    fn opened(connection: &Connection) -> Result<(), OpenError> {
        bring_up_to_date(connection, Path::new("folder"), (7, &STEPS))
    }

    fn rows(connection: &Connection) -> Vec<(i64, String)> {
        let mut select = connection.prepare("SELECT a, b FROM t").expect("a column");
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.expect("rows").map(|row| row.expect("a row")).collect()
    }

    #[test]
    fn an_older_form_becomes_todays() {
        let connection = of_form(7);
        opened(&connection).expect("opened");
        assert_eq!(
            (form(&connection).ok(), rows(&connection)),
            (Some(9), vec![(1, "y".to_owned())])
        );
        opened(&connection).expect("opened again, as it is");
        assert_eq!(form(&connection).ok(), Some(9));
    }

    #[test]
    fn a_step_is_taken_whole_or_not_at_all_and_goes_on_later() {
        let connection = of_form(7);
        let breaks =
            "CREATE TRIGGER breaks BEFORE DELETE ON t BEGIN SELECT RAISE(ABORT, 'no'); END";
        connection.execute_batch(breaks).expect("made");
        opened(&connection).expect_err("the second step fails");
        let whole = vec![(1, "x".to_owned()), (2, "x".to_owned())];
        assert_eq!((form(&connection).ok(), rows(&connection)), (Some(8), whole));
        connection.execute_batch("DROP TRIGGER breaks").expect("dropped");
        opened(&connection).expect("it goes on");
        assert_eq!((form(&connection).ok(), rows(&connection).len()), (Some(9), 1));
    }

    #[test]
    fn the_tables_of_others_are_left_alone() {
        let refused = make_tables(&of_form(0), Path::new("folder")).expect_err("refused");
        assert_eq!(refused.to_string(), "folder has a gridpost.sqlite that is not Gridpost's");
    }

    #[test]
    fn forms_that_are_not_known_are_refused_and_kept() {
        for (found, want) in [(6, "before"), (10, "newer"), (-1, "before")] {
            let connection = of_form(found);
            let refused = opened(&connection).expect_err("refused").to_string();
            assert!(refused.contains(want), "{found}: {refused}");
            assert_eq!(form(&connection).ok(), Some(found));
        }
    }
}
