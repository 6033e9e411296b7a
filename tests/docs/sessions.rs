//! Runs the sessions in the recipes, in other pages and in README.md, and compares the output with the pages.

use std::path::Path;
use testkit::{Page, Server};

fn replay(mut page: Page) {
    let server = page.server();
    page.replay(&server, &[], |_| {});
}

/// Runs all pages except those of the commands, which commands.rs runs.
#[test]
fn recipes_and_other_pages_work_as_they_are_told() {
    let pages = Page::all_in("docs").into_iter().filter(|page| !page.path().starts_with("docs/commands"));
    pages.for_each(replay);
}

#[test]
fn recipes_link_to_the_commands_they_use() {
    for page in Page::all_in("docs/recipes") {
        let text = page.lines.join("\n");
        let typed = page.lines.iter().filter_map(|line| line.strip_prefix("127.0.0.1:6379> ")?.split(' ').next());
        for command in typed.filter(|command| command.contains('.')) {
            let link = format!("[{command}](../commands/{}.md)", command.to_lowercase());
            assert!(text.contains(&link), "{}: {command}", page.path().display());
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = Page::all_in("docs");
    pages.push(Page::read(&root.join("README.md")));
    for page in &pages {
        let links =
            page.lines.iter().flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = root.join(page.path()).parent().expect("a folder").to_owned();
            let target = if file.is_empty() { root.join(page.path()) } else { folder.join(file) };
            assert!(target.is_file(), "{}: {link}", page.path().display());
            if !anchor.is_empty() {
                let titles = Page::read(&target).lines;
                let is_there = titles.iter().any(|line| line.starts_with('#') && anchor_of(line) == anchor);
                assert!(is_there, "{}: {link}", page.path().display());
            }
        }
    }
}

/// Returns the anchor that GitHub gives a heading.
fn anchor_of(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect()
}

#[test]
fn every_recipe_is_in_the_index() {
    let pages = Page::all_in("docs/recipes");
    let index = pages.iter().find(|page| page.name() == "README").expect("an index");
    let links: Vec<_> = index.lines.iter().filter_map(|line| line.split("](").nth(1)?.split(')').next()).collect();
    for page in pages.iter().filter(|page| page.name() != "README") {
        let file = format!("{}.md", page.name());
        assert!(links.contains(&file.as_str()), "{file} is not in the index");
    }
}

/// The test gives each master the same number of slots, as `redis-cli --cluster create` does.
#[test]
fn sixteen_shards_are_spread_over_masters_as_the_recipe_says() {
    let server = Server::builder().config("cluster-enabled yes").start();
    let mut c = server.client();
    let slots: Vec<_> = (0..16).map(|shard| c.int(&format!("CLUSTER KEYSLOT jobs:{{{shard}}}"))).collect();
    for (masters, fewest, most) in [(2, 8, 8), (3, 4, 6), (4, 4, 4)] {
        let of = |slot: i64| slot * masters / 16_384;
        for master in 0..masters {
            let shards = slots.iter().filter(|slot| of(**slot) == master).count();
            assert!((fewest..=most).contains(&shards), "master {master} of {masters} has {shards} of {slots:?}");
        }
    }
}
