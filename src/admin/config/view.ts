/** Configuration in force, what the files would change, and the reload that takes them. */
import { call, Fault } from '../page/api.ts'
import { confirmed, toast } from '../page/dialog.ts'
import { overText, plural } from '../../insight/format.js'
import { changed, live, now } from '../page/live.ts'
import {
  button,
  faultBox,
  html,
  state,
  timeText,
  useAnswer,
  useEffect,
  useLive,
  useState,
} from '../page/ui.ts'
import { markedLines, type MarkedLine } from '../../config/changes/line-diff.ts'
import { plannedInWords } from '../../config/changes/radius-in-words.ts'
import type { ReloadOutcome } from '../../config/changes/blast-radius.ts'
import type { Effective } from './operations.ts'
import { register } from '../page/places.ts'

function takenText({ revision, clientCount }: Effective) {
  const taken = live.overview?.reloads.findLast((one) => one.revision === revision)?.at
  // Reloads of the last 15 minutes are known.
  const isYoung = now() - Date.parse(live.overview?.startedAt ?? '') < 15 * 60_000
  const before = isYoung ? 'at the start' : 'at the start, or more than 15 minutes ago'
  const when = taken === undefined ? before : timeText(taken)
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

type Written = Effective['written']

const colours = { '-': 'is bad', '+': 'is ok', ' ': 'is' }
const marked = ([sign, line]: MarkedLine) =>
  html`<span class=${colours[sign]}>${`${sign} ${line}\n`}</span>`

const linesOf = (settings: Written, name: string) =>
  settings[name] === undefined ? [] : yaml(settings[name]).trim().split('\n')

/** Settings as YAML by their names; where the files have others, the lines that go and come are marked. */
function compared(inForce: Written, files = inForce) {
  return Object.keys({ ...inForce, ...files }).map((name) => {
    const lines = markedLines(linesOf(inForce, name), linesOf(files, name))
    const isChanged = lines.some(([sign]) => sign !== ' ')
    return { name, isChanged, lines }
  })
}
type Compared = ReturnType<typeof compared>

const settingOf = ({ name, isChanged, lines }: Compared[number]) =>
  html`<details key=${name} open=${isChanged}>
    <summary>${name} ${isChanged && state('warn', 'differs in the files')}</summary>
    <pre tabindex="0" role="region" aria-label=${isChanged ? `${name}, compared` : name}>
${isChanged ? lines.map(marked) : lines.map(([, line]) => line).join('\n')}</pre
    >
  </details>`

/** What changes, and three lines on each side of it. */
const nearChanges = (lines: readonly MarkedLine[]) =>
  lines.filter((_, at) => lines.slice(Math.max(0, at - 3), at + 4).some(([sign]) => sign !== ' '))

type Planned = Extract<ReloadOutcome, { blastRadius: unknown }>

/** Shows what the files would change, then asks whether to take exactly that. Resolves to how they differ. */
async function askToReload({ revision, written: inForce }: Effective, after: () => unknown) {
  const dryRun = { method: 'POST', body: { dryRun: true } }
  const { revision: next, blastRadius, over, written } = await call<Planned>('/api/reload', dryRun)
  const { needsRestart, counts } = blastRadius
  const { 'clients.removed': clients = 0, 'keys.revoked': keys = 0 } = counts
  const gone = [
    ...(clients > 0 ? [plural(clients, 'client')] : []),
    ...(keys > 0 ? [plural(keys, 'key')] : []),
  ]
  const warning = over === undefined ? '' : overText(over)
  const settings = compared(inForce, written)
  await confirmed({
    title: next === revision ? `Reload ${revision}` : `Reload ${revision} to ${next}`,
    content: () => html`
      <pre class="radius" tabindex="0" role="region" aria-label="What changes">
${plannedInWords(blastRadius, over?.clients).join('\n')}</pre
      >
      ${settings.map((one) => one.isChanged && settingOf({ ...one, lines: nearChanges(one.lines) }))}
      ${next === revision && html`<p>Certificates are read again.</p>`}
      ${warning !== '' && html`<p>${over?.count === 0 ? '' : '▲ '}${warning}.</p>`}
      <p>
        Taken by all workers together or by none; no connection is closed. To go back, restore the files
        and reload.
      </p>`,
    confirm: gone.length > 0 ? `Reload: remove ${gone.join(', ')}` : 'Reload',
    busy: 'Reloading…',
    harmless: gone.length === 0,
    isReady: () => needsRestart.length === 0,
    act: async () => {
      await call('/api/reload', { method: 'POST', body: { revision: next } }).catch(explain)
      return () => {
        changed(after)
        toast(`Revision ${next} is in force.`)
      }
    },
  })
  return settings
}

function explain(fault: unknown): never {
  if (!(fault instanceof Fault) || fault.said?.status !== 409) throw fault
  const message = 'The files have changed since this was shown. Cancel, and look at them again.'
  throw new Fault('', message)
}

/** Its answer changes only with a reload. */
function Config() {
  useLive()
  const { answer, note, load } = useAnswer<Effective>('/api/config')
  const [isReading, read] = useState(false)
  const [fault, setFault] = useState<unknown>(undefined)
  const [differing, mark] = useState<Compared | undefined>(undefined)
  // They were compared with what was in force then.
  useEffect(() => mark(undefined), [answer?.revision])
  const compare = async () => {
    if (answer === undefined) return
    setFault(undefined)
    mark(undefined)
    read(true)
    await askToReload(answer, load).then(mark, setFault)
    read(false)
  }
  const due = live.overview?.attention.find(({ kind }) => kind === 'reload')
  return html`
    ${note}
    <p>${answer && takenText(answer)}</p>
    ${due && html`<p class="warn">▲ ${due.text}</p>`}
    <p class="actions">${button(isReading ? 'Reading the files…' : 'Compare with the files', compare)}</p>
    <div>${fault !== undefined && faultBox(fault)}</div>
    <h2>In force, with defaults</h2>
    <p class="muted">Secrets are left out. Clients are under Clients.</p>
    ${answer?.warnings.map((warning) => html`<p class="warn">▲ ${warning}</p>`)}
    ${answer && (differing ?? compared(answer.written)).map(settingOf)}`
}

register({ path: '/config', name: 'Config', at: 6, key: 'f', Whole: Config })
