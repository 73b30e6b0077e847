/** The metrics of the backends, read at each scrape. */
import type { Balancer } from '../backends/balancer.ts'
import { by, counter, gauge, histogram, sample, type Family } from './family.ts'

/** The part of a balancer that metrics read. */
export type BackendsView = Pick<Balancer, 'backends' | 'waiting'>

/** view: returns undefined before there is a balancer. */
export function backendFamilies(view: () => BackendsView | undefined): Family[] {
  return [
    gauge.min(
      'tollgate_backend_up',
      '0 while a backend fails its requests or its checks, else 1; with workers, what the worst off sees.',
      () =>
        (view()?.backends ?? []).map(({ name, standing }) =>
          sample(standing.isDown ? 0 : 1, { backend: name }),
        ),
    ),
    counter('tollgate_backend_requests_total', 'Requests, by what became of them.', () =>
      (view()?.backends ?? []).flatMap(({ name, outcomes }) =>
        by('outcome', outcomes, { backend: name }),
      ),
    ),
    histogram(
      'tollgate_backend_attempt_seconds',
      'The time of each attempt at a backend, until its answer has ended or it has failed.',
      () =>
        (view()?.backends ?? []).map(({ name, attemptSeconds }) => [
          { backend: name },
          attemptSeconds,
        ]),
    ),
    counter(
      'tollgate_backend_surplus_total',
      'Connections closed because the backend sent on them what nobody had asked for, such as a second answer.',
      () =>
        (view()?.backends ?? []).map(({ name, surplus }) =>
          sample(surplus.connections, { backend: name }),
        ),
    ),
    gauge.sum(
      'tollgate_backend_waiting',
      'Requests that wait for a connection to a backend.',
      () => view()?.waiting ?? 0,
    ),
  ]
}
