//! Texts as pages show them: what was supplied from elsewhere, numbers, times.

use gridpost_api::schema::Time;
use gridpost_core::ledger::{Latencies, Latency};
use gridpost_core::time::Timestamp;
use gridpost_ops::output::hides;
use maud::{Markup, html};

/// Shows a point in time: UTC here. The script says how long ago that is, and in the reader's zone.
pub(super) fn time(at: impl Into<Option<Time>>) -> Markup {
    moment(at.into(), None)
}

/// Shows a point in time whose seconds matter, as the time of the day.
pub(super) fn clock(at: impl Into<Option<Time>>) -> Markup {
    moment(at.into(), Some("second"))
}

fn moment(at: Option<Time>, form: Option<&str>) -> Markup {
    let Some(at) = at else { return html! { "-" } };
    let utc = at.to_string();
    let told = utc.replace('T', " ").replace('Z', " UTC");
    html! { time datetime=(utc) title=(told) data-form=[form] { (told) } }
}

/// Shows a text, as a time if it is one. A long name may break.
pub(super) fn time_or_text(text: &str) -> Markup {
    match Timestamp::parse_rfc_3339(text) {
        None => soft(text),
        Some(at) => time(Time(at)),
    }
}

/// Shows a sentence whose times are times and whose numbers are in groups of digits.
pub(super) fn sentence(text: &str) -> Markup {
    html! {
        @for (at, word) in text.split(' ').enumerate() {
            @let (word, stop) = word.split_at(word.trim_end_matches([',', '.', ';']).len());
            @if at > 0 { " " }
            @if let Ok(count) = word.parse() { (number(count)) } @else { (time_or_text(word)) }
            (stop)
        }
    }
}

/// Writes a number in groups of three digits.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Writes a number with a noun, of one or of many.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", self::number(number), if number == 1 { one } else { many })
}

/// Writes how long ago that was, in at most two units.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(at).as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Writes a latency, which is a bound.
pub(super) fn bound(latency: Latency) -> String {
    latency.to_string().replace("<=", "≤")
}

/// Returns p50, p95 and p99 with their signs.
pub(super) fn bounds(latencies: &Latencies) -> [String; 3] {
    [50, 95, 99].map(|percent| latencies.percentile(percent).map_or("–".to_owned(), bound))
}

/// Writes a part of a whole in per cent; nothing of nothing is not known. Only what is whole is 100 %.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let tenths = u128::from(part) * 1_000 / u128::from(whole);
    match tenths {
        0 if part > 0 => "< 0.1 %".to_owned(),
        1_000 => "100 %".to_owned(),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// JSON in which characters that do not show stand by their numbers. It says the same: they can be in texts alone.
pub(super) fn visible_json(json: &str) -> String {
    let escaped = |c: char| match hides(c) && u32::from(c) <= 0xffff && c != '\r' {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    if json.contains(hides) { json.chars().map(escaped).collect() } else { json.to_owned() }
}

/// Shows such characters below a field: the field can't.
pub(super) fn hidden_in(value: &str) -> Markup {
    html! {
        @if value.contains(hides) {
            " " span.t-warn { "It has characters that do not show: " code { (visible(value)) } }
        }
    }
}

/// Text in which characters show that would reorder what stands beside them, or show nothing.
pub(super) fn visible(text: &str) -> String {
    let shown = |c: char| if hides(c) { c.escape_unicode().collect() } else { vec![c] };
    text.chars().flat_map(shown).collect()
}

/// The beginning of a long text, for tables: what it was cut from is on the page of the thing itself.
pub(super) fn short(text: &str) -> String {
    const MOST: usize = 120;
    let mut shown = visible(text);
    if let Some((end, _)) = shown.char_indices().nth(MOST) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// Shows a long name that may break after its separators and humps, and never within a word.
pub(super) fn soft(name: &str) -> Markup {
    let name = visible(name);
    let mut parts = vec![String::new()];
    let mut last = ' ';
    for c in name.chars() {
        let is_hump = last.is_lowercase() && c.is_uppercase();
        let is_after = "/.:?&=_-".contains(last) && !"/.:?&=_-".contains(c);
        match parts.last_mut() {
            Some(part) if !is_hump && !is_after => part.push(c),
            _ => parts.push(c.to_string()),
        }
        last = c;
    }
    html! { @for (at, part) in parts.iter().enumerate() { @if at > 0 { wbr; } (part) } }
}

/// Shows sentences, whose long names may break as such.
pub(super) fn prose(text: &str) -> Markup {
    const LONG: usize = 24;
    html! {
        @for word in text.split_inclusive(' ') {
            @if word.len() > LONG { (soft(word)) } @else { (visible(word)) }
        }
    }
}

/// Writes the reason of an end as words: `UndeliverableDueToHttpBadRequest` is "400 Bad request", as its outcome.
pub(super) fn reason(name: &str) -> String {
    let short = name.strip_prefix("UndeliverableDueTo").filter(|short| !short.is_empty());
    let short = short.unwrap_or(name);
    short.strip_prefix("Http").map_or_else(|| words(short), outcome)
}

/// Writes an outcome as words, with the status that most often leads to it.
pub(super) fn outcome(name: &str) -> String {
    let status = match name {
        "BadRequest" => "400 ",
        "Unauthorized" => "401 ",
        "Forbidden" => "403 ",
        "NotFound" => "404 ",
        "PayloadTooLarge" => "413 ",
        "Busy" => "503 ",
        _ => "",
    };
    format!("{status}{}", words(name))
}

/// Writes a name of several words as words: `TimedOut` is "Timed out".
pub(super) fn words(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        let is_hump = text.ends_with(char::is_lowercase) && c.is_uppercase();
        text.extend(is_hump.then_some(' '));
        text.extend(if is_hump { c.to_lowercase().collect() } else { vec![c] });
    }
    text
}

/// Says what an attempt met: the status, else the outcome.
pub(super) fn met(outcome: &str, status: Option<u16>) -> String {
    status.map_or_else(|| words(outcome), |status| status.to_string())
}

/// Shows JSON with its names, texts and numbers told apart.
pub(super) fn json(text: &str) -> Markup {
    let text = visible_json(text);
    let mut rest = text.as_str();
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (end, class) = token(rest);
        parts.push((class, &rest[..end]));
        rest = &rest[end..];
    }
    html! { @for (class, part) in parts { @if class.is_empty() { (part) } @else { span class=(class) { (part) } } } }
}

/// Returns where the first token ends, and its class.
fn token(text: &str) -> (usize, &'static str) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    match text.chars().next() {
        Some('"') => {
            let mut is_escaped = false;
            let ends = |c: char| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            };
            let end = text[1..].find(ends).map_or(text.len(), |at| at + 2);
            (end, if text[end..].trim_start().starts_with(':') { "k" } else { "s" })
        }
        Some(c) if is_word(c) => (text.find(|c| !is_word(c)).unwrap_or(text.len()), "d"),
        _ => (text.find(|c| c == '"' || is_word(c)).unwrap_or(text.len()), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_readable() {
        let counted = [1, 12, 1_234_567].map(|count| counted(count, "event", "events"));
        assert_eq!(counted, ["1 event", "12 events", "1\u{202f}234\u{202f}567 events"]);
        let at = time_or_text("2026-11-23T14:48:16.000Z").into_string();
        assert!(at.contains("datetime=\"2026-11-23T14:48:16.000Z\""), "{at}");
        assert_eq!(time_or_text("-").into_string(), time(None).into_string());
        let told = sentence("<b> 1200 from before 2026-11-23T14:48:16.000Z.").into_string();
        let [begin, end] = ["&lt;b&gt; 1\u{202f}200 from before <time", "</time>."];
        assert!(told.starts_with(begin) && told.ends_with(end), "{told}");
        for (part, whole, want) in [
            (0, 0, "–"),
            (0, 9, "0.0 %"),
            (1, 9_999, "< 0.1 %"),
            (9_999, 10_000, "99.9 %"),
            (7, 7, "100 %"),
        ] {
            assert_eq!(percent(part, whole), want);
        }
    }

    #[test]
    fn names_break_at_separators_alone() {
        for (name, want) in [
            ("maxEventsPerBatch", "max<wbr>Events<wbr>Per<wbr>Batch"),
            ("https://a.b/c", "https://<wbr>a.<wbr>b/<wbr>c"),
            ("word", "word"),
            ("<b>\u{202e}", "&lt;b&gt;\\u{202e}"),
        ] {
            assert_eq!(soft(name).into_string(), want);
        }
        let told = prose("Is <b>. properties.retryPolicy.maxDeliveryAttempts must be a-b");
        let want = "Is &lt;b&gt;. properties.<wbr>retry<wbr>Policy.<wbr>max<wbr>Delivery<wbr>Attempts must be a-b";
        assert_eq!(told.into_string(), want);
    }

    #[test]
    fn long_texts_are_cut_at_characters() {
        let long = "ü".repeat(120);
        for (text, want) in [
            ("", String::new()),
            ("a\u{202e}b", "a\\u{202e}b".to_owned()),
            (&long, long.clone()),
            (&format!("{long}b"), format!("{long}…")),
        ] {
            assert_eq!(short(text), want);
        }
        assert_eq!(short(&"\u{202e}".repeat(1_000)).chars().count(), 121);
    }

    #[test]
    fn json_is_marked_and_stays_the_same_text() {
        let shown =
            json("{\"a\\\"b\": [\"</pre>\u{202e}\", -1.5e3, true], \"ü\": null").into_string();
        let want = "{<span class=\"k\">&quot;a\\&quot;b&quot;</span>: [<span class=\"s\">&quot;&lt;/pre&gt;\\u202e&quot;\
                    </span>, <span class=\"d\">-1.5e3</span>, <span class=\"d\">true</span>], \
                    <span class=\"k\">&quot;ü&quot;</span>: <span class=\"d\">null</span>";
        assert_eq!(shown, want);
        for broken in ["\"", "\"\\", "é", "-", ""] {
            let shown = json(broken).into_string();
            assert!(shown.contains(&maud::html! { (broken) }.into_string()), "{shown}");
        }
    }
}
