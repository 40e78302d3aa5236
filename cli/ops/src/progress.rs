//! Progress of long work on standard error: bars on a terminal, plain lines elsewhere.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use crate::output;

/// The place where the steps of one command are shown.
#[derive(Clone, Debug)]
pub struct Progress {
    bars: MultiProgress,
    display: Display,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Display {
    Bars,
    Lines,
    Silent,
}

/// One step under way. Dropped before it is done, it leaves no bar behind: the error speaks.
#[derive(Debug)]
pub struct Step {
    progress: Progress,
    bar: ProgressBar,
    title: String,
    started: Instant,
}

impl Progress {
    /// Bars when standard error is a terminal, else lines.
    pub fn on_stderr() -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let display = if bars.is_hidden() { Display::Lines } else { Display::Bars };
        Self { bars, display }
    }

    /// Shows nothing; for tests.
    pub fn silent() -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        Self { bars, display: Display::Silent }
    }

    /// Begins a step; `title` says what is being done.
    pub fn step(&self, title: &str) -> Step {
        let bar = self.bars.add(ProgressBar::new_spinner());
        bar.set_style(style("{spinner:.cyan} {msg}  {elapsed:.dim}"));
        bar.set_message(output::in_line(title).into_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        if self.display == Display::Lines {
            output::note(&format!("· {title}"));
        }
        Step { progress: self.clone(), bar, title: title.to_owned(), started: Instant::now() }
    }

    /// Prints a line above the bars.
    pub fn line(&self, text: &str) {
        match self.display {
            Display::Bars => drop(self.bars.println(&*output::shown(text))),
            Display::Lines => output::note(text),
            Display::Silent => {}
        }
    }
}

impl Step {
    /// Shows a bar of `count` parts instead of a spinner. None is as good as a spinner.
    pub fn total(&self, count: u64) {
        if count > 0 {
            self.bar.set_length(count);
            self.bar.set_style(style(
                "{spinner:.cyan} {prefix} {bar:24.cyan/dim} {pos}/{len}  {msg:.dim}  {elapsed:.dim}",
            ));
            self.bar.set_prefix(output::in_line(&self.title).into_owned());
            self.bar.set_message(String::new());
        }
    }

    /// One part is done; `detail` names what is under way.
    pub fn advance(&self, detail: &str) {
        self.bar.inc(1);
        self.detail(detail);
    }

    /// Shows that this many parts are done; without a terminal each further tenth is a line, with
    /// `detail`, which names what is under way.
    pub fn reach(&self, count: u64, detail: &str) {
        let length = self.bar.length().unwrap_or(0);
        let tenth = |count: u64| (count * 10).checked_div(length).unwrap_or(0);
        if self.progress.display == Display::Lines && tenth(count) > tenth(self.bar.position()) {
            output::note(format!("· {count}/{length} {detail}").trim_end());
        }
        self.bar.set_position(count);
        self.bar.set_message(output::in_line(detail).into_owned());
    }

    /// Names what is under way.
    pub fn detail(&self, detail: &str) {
        let detail = output::in_line(detail).into_owned();
        match self.bar.length() {
            Some(_) => self.bar.set_message(detail),
            None => self.bar.set_message(format!("{}: {detail}", output::in_line(&self.title))),
        }
    }

    /// The step is done; `summary` says what there is now.
    pub fn done(self, summary: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        self.progress.line(&format!("✓ {summary} ({seconds:.1} s)"));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .progress_chars("━╸─")
}
