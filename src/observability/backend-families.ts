/** The metrics of the backends, read from those who keep them when a scrape asks. */
import { gauge, type Family } from './family.ts'

/** As a balancer has it; undefined before there is one. */
export interface BackendsView {
  /** Requests in line. */
  readonly waiting: number
}

export function backendFamilies(view: () => BackendsView | undefined): Family[] {
  return [
    gauge.sum(
      'tollgate_backend_waiting',
      'Requests that wait for a connection to a backend.',
      () => view()?.waiting ?? 0,
    ),
  ]
}
