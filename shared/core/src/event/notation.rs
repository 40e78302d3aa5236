//! Recognizes paths written as in other products.

/// Describes a path in another notation, such as JSONPath. `None` for names with dots between them.
pub fn path_notation(path: &str) -> Option<String> {
    if path.trim() != path {
        return Some("the space at its ends counts as part of a name".to_owned());
    }
    if path.contains("://") {
        return Some("dots part names, so no name that contains one can be reached".to_owned());
    }
    if path.split('.').any(|name| name == "*") {
        return Some("* stands for itself".to_owned());
    }
    let inner = path.trim_start_matches(['$', '{', '@']).trim_end_matches('}').trim();
    let inner = inner.trim_start_matches(['.', '/']);
    let is_pointer = path.starts_with('/') || path.starts_with('#');
    let inner = inner.trim_start_matches("#/");
    let plain = if is_pointer { inner.replace('/', ".") } else { without_brackets(inner) };
    if plain == path {
        return None;
    }
    let what = "it is written as names with dots between them";
    let instead = if plain.is_empty() { String::new() } else { format!(": {plain}") };
    match has_index(path) {
        true => Some(format!("{what}, without an index{instead}")),
        false => Some(format!("{what}{instead}")),
    }
}

/// Writes `['name']` as `.name`, and drops indexes.
fn without_brackets(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, behind)) = rest.split_once('[') {
        let Some((inside, behind)) = behind.split_once(']') else { break };
        plain.push_str(before);
        if let Some(name) = quoted_name(inside) {
            plain.push('.');
            plain.push_str(name);
        }
        rest = behind;
    }
    plain.push_str(rest);
    plain.trim_start_matches('.').to_owned()
}

fn quoted_name(inside: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|mark| inside.strip_prefix(mark)?.strip_suffix(mark))
}

fn has_index(path: &str) -> bool {
    let insides = path.split('[').skip(1).filter_map(|behind| behind.split(']').next());
    insides.into_iter().any(|inside| quoted_name(inside).is_none())
}
