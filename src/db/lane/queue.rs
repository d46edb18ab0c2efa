//! Who waits for a lane, and whose turn it is: parties take turns, and within a party whoever came
//! first. One party that asks for a thousand things at once holds up the others by one turn each.
//!
//! Turns are the start tags of start-time fair queueing (Goyal, Vin, Cheng 1996), where everything
//! costs the same.

use std::collections::{BTreeMap, HashMap};

/// How many may wait.
pub(super) const MOST: usize = 4096;

/// How many of them one party may have wait, so that there is always room for others.
pub(super) const SHARE: usize = MOST / 2;

/// How many of those that wait are looked through for a group.
const SIGHT: usize = 512;

/// Those who wait, in the order of their turns.
#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: BTreeMap<Place, (u64, T)>,
    parties: HashMap<u64, Party>,
    /// The turn of whoever was served last.
    now: u64,
    arrivals: u64,
}

/// A turn, and who of those that have it came first.
type Place = (u64, u64);

/// A party of which somebody waits.
#[derive(Debug)]
struct Party {
    waiting: usize,
    /// The turn of its last.
    turn: u64,
}

/// What is to become of one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// It goes.
    Take,
    /// It waits on.
    Stay,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), parties: HashMap::new(), now: 0, arrivals: 0 }
    }
}

impl<T> Queue<T> {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Lets one in; gives it back where there is no room for it.
    pub(super) fn push(&mut self, party: u64, one: T) -> Result<(), T> {
        if self.waiting.len() >= MOST {
            return Err(one);
        }
        let known = self.parties.entry(party).or_insert(Party { waiting: 0, turn: self.now });
        if known.waiting >= SHARE {
            return Err(one);
        }
        known.waiting += 1;
        known.turn = known.turn.max(self.now) + 1;
        self.arrivals += 1;
        self.waiting.insert((known.turn, self.arrivals), (party, one));
        Ok(())
    }

    /// Asks those who wait, in the order of their turns, until `most` of them go.
    pub(super) fn take(&mut self, most: usize, mut pick: impl FnMut(&T) -> Pick) -> Vec<T> {
        let seen = self.waiting.iter().take(SIGHT);
        let picked = seen.filter(|(_, (_, one))| pick(one) == Pick::Take).take(most);
        let places: Vec<_> = picked.map(|(place, _)| *place).collect();
        places.into_iter().filter_map(|place| self.remove(place)).collect()
    }

    /// Those who wait and of whom this holds, however many they are.
    pub(super) fn take_all_who(&mut self, leaves: impl Fn(&T) -> bool) -> Vec<T> {
        let leaving = self.waiting.iter().filter(|(_, (_, one))| leaves(one));
        let places: Vec<_> = leaving.map(|(place, _)| *place).collect();
        places.into_iter().filter_map(|place| self.remove(place)).collect()
    }

    /// Everybody who waits.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = T> {
        self.parties.clear();
        std::mem::take(&mut self.waiting).into_values().map(|(_, one)| one)
    }

    fn remove(&mut self, place: Place) -> Option<T> {
        let (party, one) = self.waiting.remove(&place)?;
        self.now = self.now.max(place.0);
        if let Some(known) = self.parties.get_mut(&party) {
            known.waiting -= 1;
            if known.waiting == 0 {
                self.parties.remove(&party);
            }
        }
        Some(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(arrivals: &[(u64, &'static str)]) -> Queue<&'static str> {
        let mut queue = Queue::default();
        for (party, one) in arrivals {
            queue.push(*party, *one).unwrap();
        }
        queue
    }

    fn take(queue: &mut Queue<&'static str>, most: usize) -> String {
        queue.take(most, |_| Pick::Take).join(" ")
    }

    #[test]
    fn who_is_alone_is_served_in_the_order_of_arrival() {
        let mut queue = of(&[(1, "a"), (1, "b"), (1, "c")]);
        assert_eq!(take(&mut queue, 2), "a b");
        assert_eq!(take(&mut queue, 2), "c");
        assert_eq!(take(&mut queue, 2), "");
    }

    #[test]
    fn parties_take_turns_however_many_one_of_them_sends() {
        let mut queue = of(&[(1, "a"), (1, "b"), (1, "c"), (1, "d"), (2, "x"), (3, "y")]);
        assert_eq!(take(&mut queue, 4), "a x y b");
        queue.push(2, "z").unwrap();
        assert_eq!(take(&mut queue, 4), "c z d");
    }

    #[test]
    fn who_was_left_waiting_leads_the_next_group() {
        let mut queue = of(&[(1, "a"), (1, "other"), (1, "b")]);
        let like_a = |one: &&str| if *one == "other" { Pick::Stay } else { Pick::Take };
        assert_eq!(queue.take(9, like_a), ["a", "b"]);
        queue.push(1, "c").unwrap();
        assert_eq!(take(&mut queue, 9), "other c");
    }

    #[test]
    fn one_party_cannot_take_all_the_room() {
        let mut queue = Queue::default();
        let flood = (0..MOST).filter(|_| queue.push(1, "flood").is_ok()).count();
        assert_eq!(flood, SHARE);
        assert_eq!(queue.push(2, "other"), Ok(()));
        assert_eq!(take(&mut queue, 2), "flood other");
        let rest = (0..MOST).filter(|n| queue.push(*n as u64, "more").is_ok()).count();
        assert_eq!((rest, queue.len()), (MOST - SHARE + 1, MOST));
    }

    proptest! {
        #[test]
        fn nobody_is_lost_or_served_twice(
            steps in prop::collection::vec((0_u64..4, 0_usize..5, any::<u8>()), 0..200)
        ) {
            let (mut queue, mut sent, mut served) = (Queue::default(), 0, Vec::new());
            for (party, most, mask) in steps {
                if queue.push(party, sent).is_ok() {
                    sent += 1;
                }
                let pick = |one: &usize| {
                    if mask & (1 << (one % 8)) == 0 { Pick::Stay } else { Pick::Take }
                };
                served.extend(queue.take(most, pick));
            }
            served.extend(queue.take_all());
            served.sort_unstable();
            prop_assert_eq!(served, (0..sent).collect::<Vec<_>>());
            prop_assert_eq!((queue.len(), queue.parties.len()), (0, 0));
        }
    }
}
