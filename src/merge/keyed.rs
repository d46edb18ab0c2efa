//! Arrays of objects matched by a declared key, such as the lines of an invoice by `id`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::Resolve;
use super::comparison::canonical;
use super::order::merge_order;
use super::sides::{Combined, Sides, merge_json};

/// Merges element by element. An element changed by one side and removed by the other clashes;
/// so does the array as a whole where keys are missing or come twice.
pub(super) fn merge_keyed(sides: Sides<'_>, key: &str, resolve: Resolve) -> Combined {
    let keyed = sides.arrays().and_then(|[base, yours, theirs]| {
        Some([Keyed::new(base, key)?, Keyed::new(yours, key)?, Keyed::new(theirs, key)?])
    });
    match keyed {
        Some(keyed) => merge_elements(&keyed, resolve),
        None => Combined::clash(sides, resolve),
    }
}

fn merge_elements([base, yours, theirs]: &[Keyed<'_>; 3], resolve: Resolve) -> Combined {
    let mut clash = false;
    let mut elements = HashMap::new();
    for key in theirs.keys.iter().chain(&yours.keys) {
        if !elements.contains_key(key.as_str()) {
            let sides =
                Sides { base: base.get(key), yours: yours.get(key), theirs: theirs.get(key) };
            let element = merge_json(sides, resolve);
            clash |= element.clash;
            elements.insert(key.as_str(), element.value);
        }
    }
    let kept: HashSet<&str> =
        elements.iter().filter(|(_, value)| value.is_some()).map(|(key, _)| *key).collect();
    let order = merge_order(&base.order(&kept), &yours.order(&kept), &theirs.order(&kept), resolve);
    let array = order.keys.iter().filter_map(|key| elements.remove(key).flatten()).collect();
    Combined { value: Some(Value::Array(array)), clash: clash || order.clash }
}

/// An array's elements by their key.
struct Keyed<'a> {
    keys: Vec<String>,
    elements: HashMap<String, &'a Value>,
}

impl<'a> Keyed<'a> {
    /// `None` unless every element is an object with a key of its own.
    fn new(array: &'a [Value], key: &str) -> Option<Self> {
        let keys: Option<Vec<String>> = array.iter().map(|element| key_of(element, key)).collect();
        let keys = keys?;
        let elements: HashMap<String, &Value> = keys.iter().cloned().zip(array).collect();
        (elements.len() == keys.len()).then_some(Self { keys, elements })
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.elements.get(key).copied()
    }

    fn order(&self, kept: &HashSet<&str>) -> Vec<&str> {
        self.keys.iter().map(String::as_str).filter(|key| kept.contains(key)).collect()
    }
}

fn key_of(element: &Value, key: &str) -> Option<String> {
    match element.as_object()?.get(key)? {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        scalar => Some(canonical(scalar)),
    }
}
