/** Configuration in force, and what the files would change. */
import { plural } from '../../insight/format.js'
import { live } from '../page/live.ts'
import { askToReload } from './view-reload.ts'
import { button, faultBox, html, timeText, useAnswer, useLive, useState } from '../page/ui.ts'
import type { effectiveConfig } from './operations.ts'
import { register } from '../page/places.ts'

type Effective = ReturnType<typeof effectiveConfig>

function takenText({ revision, clientCount }: Effective) {
  const taken = live.overview?.reloads.findLast((one) => one.revision === revision)?.at
  const when = taken === undefined ? 'at the start, or more than 15 minutes ago' : timeText(taken)
  return `Revision ${revision}${live.overview === null ? '' : `, taken ${when}`}; ${plural(clientCount, 'client')}.`
}

/** A group, a list or a text as YAML. */
function yaml(value: unknown, indent = ''): string {
  if (typeof value !== 'object' || value === null) {
    const isPlain = /^[\w/](?:[^#:]|:(?=\S))*$/.test(String(value))
    return ` ${isPlain ? String(value) : JSON.stringify(value)}`
  }
  const isList = Array.isArray(value)
  const lines = Object.entries(value).map(
    ([key, inner]) => `\n${indent}${isList ? '-' : `${key}:`}${yaml(inner, `${indent}  `)}`,
  )
  return lines.join('') || (isList ? ' []' : ' {}')
}

/** Its answer changes only with a reload. */
function Config() {
  useLive()
  const { answer, note, load } = useAnswer<Effective>('/api/config')
  const [isReading, read] = useState(false)
  const [fault, setFault] = useState<unknown>(undefined)
  const compare = async () => {
    setFault(undefined)
    read(true)
    await askToReload(answer?.revision ?? '', load).catch(setFault)
    read(false)
  }
  const due = live.overview?.attention.find(({ kind }) => kind === 'reload')
  const settings = Object.entries(answer?.written ?? {})
  return html`
    ${note}
    <p>${answer && takenText(answer)}</p>
    ${due && html`<p class="warn">▲ ${due.text}</p>`}
    <p class="actions">${button(isReading ? 'Reading the files…' : 'Compare with the files', compare)}</p>
    <div>${fault !== undefined && faultBox(fault)}</div>
    <h2>In force, with defaults</h2>
    <p class="muted">Secrets are left out. Clients are under Clients.</p>
    ${answer?.warnings.map((warning) => html`<p class="warn">▲ ${warning}</p>`)}
    ${settings.map(
      ([name, value]) => html`<details key=${name}>
        <summary>${name}</summary>
        <pre tabindex="0" role="region" aria-label=${name}>${yaml(value).trim()}</pre>
      </details>`,
    )}`
}

register({ path: '/config', name: 'Config', at: 6, key: 'f', Whole: Config })
