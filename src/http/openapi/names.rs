//! What a resource is called inside the document, where only letters, digits and `._-` may stand.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::{Catalog, Resource};

/// Gives every resource a name of its own: `order_details` becomes `OrderDetails`.
pub(super) fn assign(catalog: &Catalog) -> Vec<(String, &Arc<Resource>)> {
    let mut taken = BTreeSet::new();
    let name = |resource: &Arc<Resource>| {
        let name = pascal(&resource.name);
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let mut free = std::iter::once(name.clone()).chain(numbered);
        free.find(|name| taken.insert(name.clone())).unwrap_or(name)
    };
    let names: Vec<String> = catalog.resources().map(name).collect();
    names.into_iter().zip(catalog.resources()).collect()
}

fn pascal(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name: String = words
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_ascii_uppercase() + rest
        })
        .collect();
    if name.is_empty() { "Resource".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::pascal;

    #[test]
    fn names_hold_only_what_a_component_may_be_called() {
        assert_eq!(pascal("order_details"), "OrderDetails");
        assert_eq!(pascal("a b/ü-2"), "AB2");
        assert_eq!(pascal("ü"), "Resource");
    }
}
