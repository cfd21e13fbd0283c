//! Circles of a directed graph: its strongly connected components (Tarjan 1972), and the shortest way round within
//! one. It never knows what the points stand for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The strongly connected components of points `0..count`, each in ascending order.
pub(super) fn components(count: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut next = vec![Vec::new(); count];
    for (from, to) in edges {
        next[*from].push(*to);
    }
    let mut search = Search { next, order: vec![None; count], low: vec![0; count], ..Search::default() };
    for point in 0..count {
        if search.order[point].is_none() {
            search.visit(point);
        }
    }
    search.found
}

/// The shortest way round within one component, each point once.
pub(super) fn shortest_circle(component: &[usize], edges: &[(usize, usize)]) -> Vec<usize> {
    let inside: BTreeSet<usize> = component.iter().copied().collect();
    let mut next: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (from, to) in edges.iter().filter(|(from, to)| inside.contains(from) && inside.contains(to)) {
        next.entry(*from).or_default().push(*to);
    }
    let circles = component.iter().filter_map(|start| circle_from(*start, &next));
    circles.min_by_key(Vec::len).unwrap_or_default()
}

/// The shortest way from a point back to it.
fn circle_from(start: usize, next: &BTreeMap<usize, Vec<usize>>) -> Option<Vec<usize>> {
    let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(point) = waiting.pop_front() {
        for to in next.get(&point).into_iter().flatten() {
            if *to == start {
                let mut circle = vec![point];
                while let Some(before) = circle.last().and_then(|last| came_from.get(last)) {
                    circle.push(*before);
                }
                circle.reverse();
                return Some(circle);
            }
            if !came_from.contains_key(to) {
                came_from.insert(*to, point);
                waiting.push_back(*to);
            }
        }
    }
    None
}

#[derive(Default)]
struct Search {
    next: Vec<Vec<usize>>,
    order: Vec<Option<usize>>,
    low: Vec<usize>,
    visited: usize,
    stack: Vec<usize>,
    found: Vec<Vec<usize>>,
}

impl Search {
    fn visit(&mut self, point: usize) {
        let own = self.visited;
        self.visited += 1;
        self.order[point] = Some(own);
        self.low[point] = own;
        self.stack.push(point);
        for to in self.next[point].clone() {
            match self.order[to] {
                None => {
                    self.visit(to);
                    self.low[point] = self.low[point].min(self.low[to]);
                }
                Some(order) if self.stack.contains(&to) => self.low[point] = self.low[point].min(order),
                Some(_) => {}
            }
        }
        if self.low[point] == own {
            let at = self.stack.iter().position(|open| *open == point).unwrap_or_default();
            let mut component = self.stack.split_off(at);
            component.sort_unstable();
            self.found.push(component);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_found_however_they_hang_together() {
        // Two circles, 0-1-2 and 3-4, with a way from one to the other; 5 stands alone.
        let edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 0)];
        let mut found = components(6, &edges);
        found.sort();
        assert_eq!(found, [vec![0, 1, 2], vec![3, 4], vec![5]]);
    }

    #[test]
    fn the_shortest_way_round_is_found() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 1), (3, 9)];
        assert_eq!(shortest_circle(&[0, 1, 2, 3], &edges), [1, 2]);
        assert_eq!(shortest_circle(&[0, 1, 2, 3], &edges[..4]), [0, 1, 2, 3]);
        assert_eq!(shortest_circle(&[0], &[]), Vec::<usize>::new());
    }
}
