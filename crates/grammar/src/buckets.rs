//! Numbers grouped by a key, in two flat lists.

/// Numbers from 0, grouped by a key.
pub(crate) struct Buckets {
    /// For each key, the index in `members` of its first member. The last entry is the number of
    /// all members.
    offsets: Vec<u32>,
    /// The members of all groups, one group after the other, in increasing order within each group.
    members: Vec<u32>,
}

impl Buckets {
    /// Groups the numbers `0..count` by their keys.
    pub(crate) fn by_key(count: usize, key: impl Fn(usize) -> u32) -> Self {
        let keys = (0..count).map(&key).max().map_or(0, |most| most as usize + 1);
        let mut offsets = vec![0; keys + 1];
        for element in 0..count {
            offsets[key(element) as usize + 1] += 1;
        }
        for at in 0..keys {
            offsets[at + 1] += offsets[at];
        }
        let mut next = offsets.clone();
        let mut members = vec![0; count];
        for element in 0..count {
            let place = &mut next[key(element) as usize];
            members[*place as usize] = element as u32;
            *place += 1;
        }
        Self { offsets, members }
    }

    /// Returns the members of the group with the given key.
    pub(crate) fn of(&self, key: u32) -> &[u32] {
        let key = key as usize;
        let Some(&[start, end]) = self.offsets.get(key..key + 2) else { return &[] };
        &self.members[start as usize..end as usize]
    }

    /// Returns the groups that are not empty, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let ranges = self.offsets.windows(2).map(|range| range[0] as usize..range[1] as usize);
        ranges.filter(|range| !range.is_empty()).map(|range| &self.members[range])
    }
}
