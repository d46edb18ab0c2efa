//! A configuration that does not fit is named, and the program ends with status 2.

use crate::support::Server;
use crate::support::process;
use crate::support::scratch::Scratch;

#[tokio::test]
async fn what_the_configuration_gets_wrong_is_named() {
    let server = Server::start("CREATE TABLE t (id int PRIMARY KEY, a int)", &["t"]).await;
    let directory = Scratch::new("config");
    let file = directory.path().join("counterfoil.toml");
    let file = file.to_str().unwrap();
    for (config, words) in [
        ("[resource.nope]\n", &["nope", "adopt"][..]),
        ("[resource.nope]\ntable = \"public.nope\"\n", &["public.nope"]),
        ("[resource.t]\ntable = \"public.other\"\n", &["[resource.t] table", "public.other"]),
        ("[resource.t]\nhidden = [\"b\"]\n", &["[resource.t] hidden", "no column b"]),
        ("[resource.t]\nread_only = [\"a\", \"c\"]\n", &["[resource.t] read_only", "no column c"]),
        ("[resource.t]\nhidden = [\"id\"]\n", &["id must be seen"]),
        ("[resource.t]\nhidden = [\"version\"]\n", &["version must be seen"]),
        ("[resource.t]\nconflict_status = 410\n", &["conflict_status", "410"]),
        ("[resource.t]\nconflict_status = 70000\n", &["conflict_status"]),
        ("[resource.t]\nmerge.groups = [[\"a\", \"zz\"]]\n", &["zz"]),
        ("[resource.t]\nkeep_history = { days = 0 }\n", &["keep_history"]),
        ("[resource.t]\nread_olny = [\"a\"]\n", &["read_olny"]),
        ("[resource]\nt = 5\n", &["invalid type"]),
        ("[server]\nlisten = \"nowhere\"\n", &["listen"]),
        ("[sever]\nlisten = \"127.0.0.1:1\"\n", &["sever"]),
        ("[server\n", &["line 1"]),
    ] {
        std::fs::write(file, config).unwrap();
        for verb in [&["check"][..], &["serve", "--no-auth", "--listen", "127.0.0.1:0"]] {
            let arguments =
                [verb, &["--database-url", &server.database_url, "--config", file]].concat();
            let output = process::run(&arguments).await;
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{config}: {said}");
            for word in words {
                assert!(said.contains(word), "{word} in {config}: {said}");
            }
        }
    }
    // Several problems are told at once.
    std::fs::write(file, "[resource.t]\nhidden = [\"b\"]\nread_only = [\"c\"]\n[resource.u]\n")
        .unwrap();
    let output =
        process::run(&["check", "--database-url", &server.database_url, "--config", file]).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        ["no column b", "no column c", "resource.u"].iter().all(|word| said.contains(word)),
        "{said}"
    );

    std::fs::write(file, "[resource.t]\ntable = \"t\"\nread_only = [\"a\"]\n").unwrap();
    let output =
        process::run(&["check", "--database-url", &server.database_url, "--config", file]).await;
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(said.contains("t  \"public\".\"t\"") && said.contains("fits the database"), "{said}");
    let missing = format!("{file}.gone");
    let output =
        process::run(&["check", "--database-url", &server.database_url, "--config", &missing])
            .await;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&missing));
}
