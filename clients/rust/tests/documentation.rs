//! The documentation: its examples run on a server, and api.txt lists the public items of the crate.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use syn::visit_mut::VisitMut;
use syn::{Attribute, Block, Fields, ImplItem, Item, Macro, Type, Visibility};
use testkit::Server;
use zeitset_client::{zexp, zlb, zq, zrl};

/// Without cargo, for example under a debugger, nothing runs.
#[test]
fn the_examples_run_on_a_server() {
    let Some(cargo) = std::env::var_os("CARGO") else { return };
    let server = Server::start();
    let mut tests = Command::new(cargo);
    tests.args(["test", "--doc", "--locked", "--all-features"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = tests.env("ZEITSET_URL", server.url()).output().expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let called = server.client().info("commandstats");
    let called: HashSet<_> = called.keys().map(|name| name.to_uppercase()).collect();
    for (name, _) in [zexp::COMMANDS, zrl::COMMANDS, zq::COMMANDS, zlb::COMMANDS].concat() {
        assert!(called.contains(&format!("CMDSTAT_{name}")), "no example calls {name}");
    }
}

/// A public item without an example of its own must be used in the example of another item. Fields, variants, and the
/// types that only name a command (`zq::Ack`) need none.
#[test]
fn every_public_item_is_in_an_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(root, "src/lib.rs", &mut files);
    let examples: String = files.iter().map(|(file, _)| examples_in(&root.join(file))).collect();
    let uses = |text: &str| {
        let ends = |at: usize| examples[at..].chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '_');
        let begins = |at: usize| !examples[..at].ends_with(|last: char| last.is_alphanumeric() || last == '_');
        examples.match_indices(text).any(|(at, _)| begins(at) && (text.ends_with('(') || ends(at + text.len())))
    };
    let public: HashSet<String> = files.iter().flat_map(|(_, items)| items).filter_map(public_type).collect();
    let mut missing = Vec::new();
    for (file, items) in &mut files {
        items.retain_mut(|item| is_listed(item, &public));
        for item in items {
            let names = match item {
                Item::Struct(item) => vec![item.ident.to_string()],
                Item::Enum(item) => vec![item.ident.to_string()],
                Item::Trait(item) => vec![item.ident.to_string()],
                Item::Type(item) => vec![item.ident.to_string()],
                Item::Fn(item) => vec![format!("{}(", item.sig.ident)],
                Item::Macro(item) if item.mac.path.segments.iter().any(|part| part.ident == "reply") => {
                    let names = item.mac.tokens.clone().into_iter().skip(1).find_map(|token| match token {
                        TokenTree::Ident(name) => Some(name.to_string()),
                        _ => None,
                    });
                    names.into_iter().collect()
                }
                Item::Impl(item) if item.trait_.is_none() => {
                    let function = |item: &ImplItem| match item {
                        ImplItem::Fn(item) if item.attrs.iter().any(|a| a.path().is_ident("doc") && has_code(a)) => {
                            None
                        }
                        ImplItem::Fn(item) => Some(format!("{}(", item.sig.ident)),
                        _ => None,
                    };
                    item.items.iter().filter_map(function).collect()
                }
                _ => Vec::new(),
            };
            missing.extend(names.into_iter().filter(|name| !uses(name)).map(|name| format!("{file}: {name}")));
        }
    }
    assert!(missing.is_empty(), "no example uses these: {missing:#?}");
}

/// Whether a line of documentation is an example that a macro makes.
fn has_code(attribute: &Attribute) -> bool {
    attribute.to_token_stream().to_string().contains("example !")
}

/// Returns the code of the examples in a file: in documentation, in the macro `example!`, and in tables.
fn examples_in(file: &Path) -> String {
    let source = std::fs::read_to_string(file).expect("a file of the crate");
    let (mut is_code, mut is_macro) = (false, false);
    let mut code = String::new();
    for line in source.lines().map(str::trim_start) {
        let documentation = line.strip_prefix("///").or(line.strip_prefix("//!"));
        is_macro |= line.contains("example!(");
        if documentation.is_some_and(|text| text.trim_start().starts_with("```")) {
            is_code = !is_code;
        } else if is_macro || is_code || line.starts_with("> ") || line.contains(" > ") {
            code.push_str(line);
        } else if let Some((_, value)) =
            line.split_once(" = ").filter(|_| documentation.is_none() && line.contains(": "))
        {
            // The value of a parameter in a table.
            code.push_str(if line.starts_with("let ") { "" } else { value });
        }
        is_macro &= !line.ends_with(")]");
        code.push('\n');
    }
    code
}

/// A file outside of the package would break the published crate.
#[test]
fn the_package_has_the_files_that_its_sources_include() {
    let Some(cargo) = std::env::var_os("CARGO") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut list = Command::new(cargo);
    list.args(["package", "--list", "--offline", "--locked", "--allow-dirty"]).current_dir(root);
    let output = list.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).replace('\\', "/");
    let packed: HashSet<&str> = text.lines().collect();
    assert!(packed.contains("LICENSE") && packed.contains("README.md"), "{packed:?}");
    let mut included = 0;
    for file in packed.iter().filter(|file| file.ends_with(".rs")) {
        let source = std::fs::read_to_string(root.join(file)).expect("a file of the crate");
        for part in source.split("include_str!(\"").skip(1) {
            let target = root.join(file).parent().expect("a folder").join(part.split('"').next().expect("a path"));
            let is_packed = packed.iter().any(|other| is_same(&root.join(other), &target));
            assert!(is_packed, "{file} includes {}", target.display());
            included += 1;
        }
    }
    assert!(included > 3, "the README and the tables of cases");
}

/// Whether both paths lead to one place, without following links.
fn is_same(one: &Path, other: &Path) -> bool {
    let mut plain = PathBuf::new();
    for part in other.components() {
        match part {
            std::path::Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    one == plain
}

/// `ZEITSET_DOCS=write` updates the list. A line that changes or goes is a breaking change.
#[test]
fn the_list_of_public_items_is_complete() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(root, "src/lib.rs", &mut files);
    let public: HashSet<String> = files.iter().flat_map(|(_, items)| items).filter_map(public_type).collect();
    let mut list = String::new();
    for (file, mut items) in files {
        items.retain_mut(|item| is_listed(item, &public));
        list.push_str(&format!("// {file}\n"));
        for mut item in items {
            Interface.visit_item_mut(&mut item);
            let tables = take_tables(&mut item);
            if !matches!(item, Item::Macro(_)) {
                list.push_str(&prettyplease::unparse(&syn::File {
                    shebang: None,
                    attrs: Vec::new(),
                    items: vec![item],
                }));
            }
            tables.iter().for_each(|row| list.push_str(&format!("{row}\n")));
        }
    }
    let path = root.join("tests/api.txt");
    if testkit::writes() {
        std::fs::write(&path, &list).expect("a file");
    }
    let committed = std::fs::read_to_string(&path).expect("the list");
    let not_in = |one: &str, other: &str| -> Vec<String> {
        let lines: HashSet<_> = other.lines().collect();
        one.lines().filter(|line| !lines.contains(line)).map(str::to_owned).collect()
    };
    let (new, gone) = (not_in(&list, &committed), not_in(&committed, &list));
    assert!(list == committed, "ZEITSET_DOCS=write updates tests/api.txt; new: {new:#?}, gone: {gone:#?}");
}

/// Parses a file and the files of its modules.
fn collect(root: &Path, file: &str, files: &mut Vec<(String, Vec<Item>)>) {
    let text = std::fs::read_to_string(root.join(file)).expect("a file of the crate");
    let items = syn::parse_file(&text).expect("Rust").items;
    let folder = match file.strip_suffix("lib.rs").or(file.strip_suffix("mod.rs")) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(file).with_extension(""),
    };
    let modules = items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        _ => None,
    });
    let modules: Vec<String> = modules.collect();
    files.push((file.to_owned(), items));
    for module in modules {
        let paths = [folder.join(format!("{module}.rs")), folder.join(module).join("mod.rs")];
        let path = paths.iter().find(|path| root.join(path).is_file()).expect("the file of a module");
        collect(root, path.to_str().expect("text"), files);
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn public_type(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}

/// Whether an item belongs to the interface. Removes private fields and methods.
fn is_listed(item: &mut Item, public: &HashSet<String>) -> bool {
    match item {
        Item::Fn(item) => is_public(&item.vis),
        Item::Enum(item) => is_public(&item.vis),
        Item::Trait(item) => is_public(&item.vis),
        Item::Type(item) => is_public(&item.vis),
        Item::Use(item) => is_public(&item.vis),
        Item::Struct(item) => {
            if let Fields::Named(fields) = &mut item.fields {
                let all = std::mem::take(&mut fields.named);
                fields.named = all.into_iter().filter(|field| is_public(&field.vis)).collect();
            }
            is_public(&item.vis)
        }
        Item::Impl(item) => {
            let is_trait = item.trait_.is_some();
            item.items.retain(|item| match item {
                ImplItem::Fn(function) => is_public(&function.vis),
                ImplItem::Type(_) => true,
                ImplItem::Macro(_) => !is_trait,
                _ => false,
            });
            let Type::Path(path) = &*item.self_ty else { return false };
            let name = path.path.segments.last().map(|segment| segment.ident.to_string());
            name.is_some_and(|name| public.contains(&name) || name.len() == 1) && (is_trait || !item.items.is_empty())
        }
        // The tables of commands, codes and bodies.
        Item::Macro(item) => item.ident.is_none(),
        _ => false,
    }
}

/// Removes what is not part of the interface: documentation, and the bodies of functions.
struct Interface;

impl VisitMut for Interface {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        attributes.retain(|attribute| !attribute.path().is_ident("doc"));
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        block.stmts.clear();
    }
}

/// Removes the tables of an item. Returns their rows.
fn take_tables(item: &mut Item) -> Vec<String> {
    match item {
        Item::Macro(table) => rows(&table.mac),
        Item::Impl(item) => {
            let name = item.self_ty.to_token_stream();
            let calls = item.items.extract_if(.., |item| matches!(item, ImplItem::Macro(_)));
            let rows_of = |item| if let ImplItem::Macro(call) = item { rows(&call.mac) } else { Vec::new() };
            calls.flat_map(rows_of).map(|row| format!("{name}: {row}")).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the rows of a table, for example of commands, or the methods of a builder. A row begins with a word that
/// follows a literal or a group.
fn rows(call: &Macro) -> Vec<String> {
    let (mut rows, mut row, mut ends) = (Vec::new(), TokenStream::new(), false);
    for token in interface(call.tokens.clone(), call.path.is_ident("setters")) {
        if ends && matches!(token, TokenTree::Ident(_)) {
            rows.push(std::mem::take(&mut row).to_string());
        }
        let is_list = |group: &Group| group.delimiter() != Delimiter::Parenthesis;
        ends = matches!(&token, TokenTree::Literal(_)) || matches!(&token, TokenTree::Group(group) if is_list(group));
        token.to_tokens(&mut row);
    }
    rows.push(row.to_string());
    rows
}

/// Removes comments and examples from the tokens of a macro and, from builders, the bodies of methods.
fn interface(tokens: TokenStream, is_builder: bool) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut kept = TokenStream::new();
    while let Some(token) = tokens.next() {
        let next = tokens.peek().map(ToString::to_string).unwrap_or_default();
        let is_example = matches!(tokens.peek(), Some(TokenTree::Literal(_)));
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' && next.starts_with("[doc") => drop(tokens.next()),
            TokenTree::Punct(mark) if mark.as_char() == '>' && is_example => drop(tokens.next()),
            // The beginning and the end of a builder's examples.
            TokenTree::Group(group) if is_builder && group.delimiter() == Delimiter::Bracket => {}
            TokenTree::Group(group) => {
                let is_body = is_builder && group.delimiter() == Delimiter::Brace;
                let mut inner = if is_body { TokenStream::new() } else { interface(group.stream(), is_builder) };
                if group.delimiter() == Delimiter::Parenthesis {
                    inner = parameters(inner);
                }
                Group::new(group.delimiter(), inner).to_tokens(&mut kept);
            }
            token => token.to_tokens(&mut kept),
        }
    }
    kept
}

/// Removes the values that parameters have in examples.
fn parameters(tokens: TokenStream) -> TokenStream {
    let mut is_value = false;
    let is_kept = |token: &TokenTree| {
        if let TokenTree::Punct(mark) = token {
            is_value = mark.as_char() != ',' && (is_value || mark.as_char() == '=');
        }
        !is_value
    };
    tokens.into_iter().filter(is_kept).collect()
}
