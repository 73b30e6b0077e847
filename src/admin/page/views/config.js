/** Configuration in force, and what the files would change. */
import { plural } from '../../../insight/format.js'
import { live } from '../live.js'
import { askToReload } from '../reload.js'
import { button, faultBox, h, source, timeText, write } from '../ui.js'

/** @import { View } from '../main.js' */

/** @typedef {{ revision: string, warnings: readonly string[], clientCount: number, config: Record<string, unknown> }} Effective */

/** @returns {View} */
export function config() {
  let revision = ''
  const says = h('p', {})
  const faults = h('div')
  const sections = h('div', { class: 'sections' })
  const review = button('Compare with the files', async () => {
    faults.replaceChildren()
    write(review, 'Reading the files…')
    try {
      await askToReload(revision, () => void effective.load())
    } catch (error) {
      faults.replaceChildren(faultBox(error))
    }
    write(review, 'Compare with the files')
  })
  const effective = source('/api/config', (/** @type {Effective} */ answer) => {
    const taken = live.overview?.reloads.findLast((one) => one.revision === answer.revision)?.at
    const since = taken ?? live.overview?.startedAt
    write(
      says,
      `Revision ${answer.revision}${since === undefined ? '' : `, taken ${taken === undefined ? 'at the start, or more than 15 minutes ago' : timeText(since)}`}; ${plural(answer.clientCount, 'client')}.`,
    )
    if (answer.revision === revision) return
    revision = answer.revision
    const { clients: _, ...settings } = answer.config
    sections.replaceChildren(
      ...answer.warnings.map((warning) => h('p', { class: 'warn' }, `▲ ${warning}`)),
      ...Object.entries(settings).map(([name, value]) =>
        h(
          'details',
          {},
          h('summary', {}, name),
          h(
            'pre',
            { tabindex: 0, role: 'region', 'aria-label': name },
            JSON.stringify(value, null, 2),
          ),
        ),
      ),
    )
  })
  return {
    title: 'Config',
    content: [
      effective.note,
      says,
      h('p', { class: 'actions start' }, review),
      faults,
      h('h2', {}, 'In force, with defaults'),
      h('p', { class: 'muted' }, 'Secrets are left out. Clients are under Clients.'),
      sections,
    ],
    // It changes only with a reload, which an event announces.
    load: effective.load,
  }
}
