use super::*;

/// Creates a store with these limits.
fn store(entries: usize, bytes: usize) -> Store {
    Store::new(StoreLimits { entries, bytes })
}

/// Returns the number of bytes that the entries hold.
fn bytes(store: &Store) -> usize {
    store.lock().bytes
}

fn item(id: &str, text: &str) -> Arc<Item> {
    let Value::Object(item) = json!({ "type": "message", "id": id, "text": text }) else { unreachable!() };
    Store::new_item(item)
}

/// Stores a response with one item, called `ID-item`. Returns its turn.
fn add(store: &Store, id: &str, text: &str, previous: Option<Arc<Turn>>) -> Arc<Turn> {
    let turn = Arc::new(Turn::new(vec![item(&format!("{id}-item"), text)], previous));
    let body = json!({ "id": id }).to_string().into();
    let response = StoredResponse { body, inputs: 0, turn: Arc::clone(&turn) };
    store.add_response(id, response).unwrap();
    turn
}

/// Stores responses with these ids.
fn add_all(store: &Store, ids: &[&str]) {
    for id in ids {
        drop(add(store, id, "", None));
    }
}

fn texts(turn: &Turn) -> Vec<String> {
    let text = |item: &Arc<Item>| {
        let item: Value = serde_json::from_str(&item.json).unwrap();
        item["text"].as_str().unwrap().to_owned()
    };
    turn.all().iter().map(text).collect()
}

fn assert_empty(store: &Store) {
    let entries = store.lock();
    assert_eq!((entries.bytes, entries.items.len(), entries.by_age.len()), (0, 0, 0));
}

fn known<'a>(store: &Store, ids: &[&'a str]) -> Vec<&'a str> {
    ids.iter().copied().filter(|id| store.response(id).is_some()).collect()
}

#[test]
fn the_oldest_entries_make_room() {
    let ids = ["a", "b", "c", "d"];
    let three = store(3, 1 << 20);
    add_all(&three, &ids);
    assert_eq!(known(&three, &ids), ["b", "c", "d"]);
    assert!(three.item("a-item").is_none() && three.item("d-item").is_some());
    // Bytes: the text of an item with its id, the constant of an item, and the body.
    let each = {
        let store = store(1, 1 << 20);
        drop(add(&store, "a", "", None));
        let own = r#"{"type":"message","id":"a-item","text":""}"#.len() + "a-item".len();
        assert_eq!(bytes(&store), own + 200 + r#"{"id":"a"}"#.len());
        bytes(&store)
    };
    let exact = store(10, 2 * each);
    add_all(&exact, &ids);
    assert_eq!((known(&exact, &ids), bytes(&exact)), (vec!["c", "d"], 2 * each));
    let less = store(10, 2 * each - 1);
    add_all(&less, &ids);
    assert_eq!((known(&less, &ids), bytes(&less)), (vec!["d"], each));
    assert!(less.fits(2 * each - 1) && !less.fits(2 * each));
    assert!(!store(0, 1).is_on() && !store(1, 0).is_on() && !store(0, 1).fits(0));
}

#[test]
fn a_chain_outlives_its_evicted_responses() {
    let store = store(2, 1 << 20);
    let mut turn = None;
    for id in ["a", "b", "c", "d"] {
        turn = Some(add(&store, id, id, turn));
    }
    let bytes_of_chain = turn.take().unwrap().bytes();
    assert_eq!(known(&store, &["a", "b", "c", "d"]), ["c", "d"]);
    assert_eq!(texts(&store.response("d").unwrap().turn), ["a", "b", "c", "d"]);
    assert_eq!(texts(&store.response("c").unwrap().turn), ["a", "b", "c"]);
    // The chain is in memory once.
    assert_eq!(bytes(&store), bytes_of_chain + 2 * r#"{"id":"c"}"#.len());
    assert!(store.delete_response("d") && !store.delete_response("d"));
    assert_eq!(texts(&store.response("c").unwrap().turn), ["a", "b", "c"]);
    assert!(store.delete_response("c"));
    assert_eq!(bytes(&store), 0);
}

#[test]
fn bytes_of_a_chain_count_until_its_last_response_is_gone() {
    let long = "x".repeat(10_000);
    let store = store(100, 25_000);
    let first = add(&store, "a", &long, None);
    drop(add(&store, "b", &long, Some(first)));
    drop(add(&store, "other", "", None));
    // Two texts fit, and three do not. Removing `a` frees only its body, because `b` continues it.
    drop(add(&store, "c", &long, None));
    assert_eq!(known(&store, &["a", "b", "other", "c"]), ["other", "c"]);
    assert!(bytes(&store) < 12_000, "{}", bytes(&store));
}

#[test]
fn a_request_in_progress_keeps_its_chain() {
    let store = store(1, 1 << 20);
    let turn = add(&store, "a", "a", None);
    let one = bytes(&store);
    drop(add(&store, "b", "b", None));
    assert!(store.response("a").is_none());
    assert_eq!((texts(&turn), bytes(&store)), (vec!["a".to_owned()], one));
    // The chain is stored again when the request ends.
    drop(add(&store, "c", "", Some(Arc::clone(&turn))));
    assert_eq!(bytes(&store), one + turn.bytes() - 1);
}

#[test]
fn requests_in_progress_do_not_remove_what_is_stored() {
    let long = "x".repeat(3000);
    let store = store(10, 5000);
    let pinned = add(&store, "a", &long, None);
    drop(add(&store, "b", &long, None));
    // `a` made room for `b`. Its items are still in use, but removing others would not free them.
    drop(add(&store, "c", "", None));
    let refused = Arc::new(Turn::new(vec![item("new", &long)], Some(pinned)));
    let body = json!({}).to_string().into();
    assert!(store.add_response("d", StoredResponse { body, inputs: 0, turn: refused }).is_err());
    drop(add(&store, "e", "", None));
    assert_eq!(known(&store, &["a", "b", "c", "d", "e"]), ["b", "c", "e"]);
}

#[test]
fn a_long_chain_is_read_and_dropped_without_recursion() {
    const LEN: usize = 100_000;
    let store = store(10, 1 << 30);
    let mut turn = None;
    for index in 0..LEN {
        turn = Some(add(&store, &format!("r{index}"), "", turn));
    }
    assert_eq!(turn.as_ref().unwrap().all().len(), LEN);
    assert_eq!(store.lock().items.len(), 10);
    drop(turn);
    // A thread with a small stack would overflow.
    let dropping = move || {
        (LEN - 10..LEN).for_each(|index| assert!(store.delete_response(&format!("r{index}"))));
        bytes(&store)
    };
    let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(dropping).unwrap();
    assert_eq!(thread.join().unwrap(), 0);
}

/// Creates a conversation without items.
fn add_conversation(store: &Store, id: &str) {
    let conversation = StoredConversation { created: 0, metadata: "{}".into(), turn: None };
    store.add_conversation(id, conversation).unwrap();
}

fn items_of(store: &Store, id: &str) -> Vec<String> {
    store.conversation(id).unwrap().turn.map(|turn| texts(&turn)).unwrap_or_default()
}

#[test]
fn a_conversation_grows_and_is_renewed() {
    let store = store(2, 1 << 20);
    add_conversation(&store, "conv");
    let first = add(&store, "a", "a", None);
    assert_eq!(store.append("conv", &first), Some(Ok(())));
    // The conversation reads the turn of the response itself.
    assert!(Arc::ptr_eq(&store.conversation("conv").unwrap().turn.unwrap(), &first));
    // Two responses that both continued the first turn are added one after the other.
    let beside = |id: &str| Arc::new(Turn::new(vec![item(id, id)], Some(Arc::clone(&first))));
    assert_eq!(store.append("conv", &beside("b")), Some(Ok(())));
    assert_eq!(store.append("conv", &beside("c")), Some(Ok(())));
    assert_eq!(items_of(&store, "conv"), ["a", "b", "c"]);
    // The conversation has changed after `a` was stored, so `a` makes room.
    drop(add(&store, "d", "d", None));
    assert_eq!(known(&store, &["a", "d"]), ["d"]);
    assert!(store.item("a-item").is_some());
    assert!(store.delete_item("conv", "a-item").is_some());
    assert!(store.item("a-item").is_none());
    assert!(store.delete_item("conv", "a-item").is_none() && store.delete_item("x", "b").is_none());
    assert_eq!(items_of(&store, "conv"), ["b", "c"]);
    assert!(store.append("x", &first).is_none() && !store.delete_conversation("d"));
    assert!(store.delete_conversation("conv") && store.delete_response("d"));
    drop(first);
    assert_empty(&store);
}

#[test]
fn a_conversation_cannot_outgrow_the_store() {
    let store = store(10, 5000);
    add_conversation(&store, "conv");
    let long = |id: &str| Arc::new(Turn::new(vec![item(id, &"x".repeat(3000))], None));
    assert_eq!(store.append("conv", &long("a")), Some(Ok(())));
    assert!(matches!(store.append("conv", &long("b")), Some(Err(given)) if given > 6000));
    assert_eq!(items_of(&store, "conv").len(), 1);
    // The metadata and the items count together.
    let metadata = |bytes: usize| "x".repeat(bytes).into();
    assert!(matches!(store.set_metadata("conv", metadata(2000)), Some(Err(given)) if given > 5000));
    assert!(matches!(store.set_metadata("conv", metadata(1000)), Some(Ok(_))));
    let short = |len: usize| Arc::new(Turn::new(vec![item("c", &"x".repeat(len))], None));
    assert!(matches!(store.append("conv", &short(600)), Some(Err(given)) if given > 5000));
    assert_eq!(store.append("conv", &short(1)), Some(Ok(())));
    assert_eq!(items_of(&store, "conv").len(), 2);
    let both = StoredConversation { created: 0, metadata: metadata(2500), turn: Some(long("d")) };
    assert!(store.add_conversation("other", both).is_err_and(|given| given > 5500));
    assert!(store.conversation("other").is_none() && store.conversation("conv").is_some());
}

#[test]
fn an_id_that_two_entries_share_stays_known() {
    let store = store(10, 1 << 20);
    for response in ["a", "b"] {
        let turn = Arc::new(Turn::new(vec![item("same", "")], None));
        let body = json!({}).to_string().into();
        store.add_response(response, StoredResponse { body, inputs: 1, turn }).unwrap();
    }
    assert!(store.delete_response("a") && store.item("same").is_some());
    assert!(store.delete_response("b") && store.item("same").is_none());
    assert_eq!(bytes(&store), 0);
}

#[test]
fn many_threads_share_the_store() {
    let store = store(50, 40_000);
    add_conversation(&store, "conv");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let mut turn = None;
                for index in 0..500 {
                    let id = format!("r{thread}-{index}");
                    turn = Some(add(store, &id, "some text", turn.filter(|_| index % 20 != 0)));
                    assert!(bytes(store) <= 40_000);
                    if index % 3 == 0 {
                        store.delete_response(&id);
                    }
                    if index % 50 == 0 && store.append("conv", turn.as_ref().unwrap()).is_none() {
                        store.item(&format!("{id}-item"));
                    }
                }
            });
        }
    });
    let ids: Vec<Arc<str>> = store.lock().by_id.keys().cloned().collect();
    assert!(!ids.is_empty() && ids.len() <= 50 && bytes(&store) <= 40_000);
    for id in ids {
        assert!(store.delete_response(&id) || store.delete_conversation(&id));
    }
    assert_empty(&store);
}
