/** What the studio says: toasts with a fix, and the list of jobs. */

import { useEffect } from "preact/hooks";
import type { Job, Toast } from "../project/session";
import { JobLine, Results } from "../tools/panel";
import { useStudio } from "./context";
import { Icon } from "./icons";

const ICONS = { info: "info", good: "check", warning: "warning", error: "error" } as const;
const STAYS_MS = 7000;

export function Toasts() {
  const { session } = useStudio();
  return <div class="toasts" role="region" aria-label="Messages" aria-live="polite">{session.toasts.value.map((toast) => <ToastCard key={toast.id} toast={toast} />)}</div>;
}

function ToastCard({ toast }: { toast: Toast }) {
  const { session } = useStudio();
  useEffect(() => {
    // Errors and questions wait for the reader
    if (toast.level === "error" || toast.act !== undefined) return;
    const timer = setTimeout(() => session.dropToast(toast.id), STAYS_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={`toast ${toast.level}`} role={toast.level === "error" ? "alert" : "status"}>
      <Icon name={ICONS[toast.level]} />
      <div>
        <p>{toast.sentence}</p>
        {toast.fix !== "" && <p class="fix">{toast.fix}</p>}
        {toast.act !== undefined && (
          <button type="button" class="button" onClick={() => {
            session.dropToast(toast.id);
            toast.act?.run();
          }}>{toast.act.label}</button>
        )}
      </div>
      <button type="button" class="quiet small" aria-label="Dismiss" onClick={() => session.dropToast(toast.id)}><Icon name="close" size={14} /></button>
    </div>
  );
}

export function isBusy(job: Job): boolean {
  return job.state === "running" || job.state === "waiting";
}

export function JobsPanel() {
  const { session } = useStudio();
  const jobs = [...session.jobs.value].reverse();
  const titles = new Map(session.tools.value.map((tool) => [tool.id, tool.title]));
  if (jobs.length === 0) return <p class="note">Long work is listed here with its progress, and can be ended. Nothing runs now.</p>;
  return (
    <div>
      {jobs.map((job) => (
        <div key={job.id} class={`job ${job.state}`}>
          <div class="head">
            <span class="lead"><Icon name={job.state === "done" ? "check" : job.state === "failed" ? "error" : job.tool} /></span>
            <h2 class="grow cut">{titles.get(job.tool) ?? job.tool}</h2>
            <span class="muted">{isBusy(job) ? `${Math.round(100 * job.fraction)} %` : job.state}</span>
          </div>
          {isBusy(job) && <JobLine job={job} />}
          {!isBusy(job) && job.sentence !== "" && <p class="muted">{job.sentence}</p>}
          {job.fix !== "" && <p class="muted">{job.fix}</p>}
          {job.result.files !== undefined && <Results result={{ files: job.result.files }} />}
        </div>
      ))}
    </div>
  );
}
