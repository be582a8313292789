"""The government family: long reports about public programmes, to be summarised."""

from __future__ import annotations

from rbx.grid.synth.body import Body
from rbx.grid.synth.family import Family
from rbx.grid.synth.template import Words, words


def _programme(agency: str, programme: str, matter: str) -> Words:
    return {"agency": words(agency), "programme": words(programme), "matter": words(matter)}


_PROGRAMMES: dict[str, Words] = {
    "defence": _programme(
        "the Department of Defense|the Army|the Navy|the Air Force|the Defense Logistics Agency",
        "the ship maintenance programme|the spare parts contract|the fighter upgrade|the depot plan",
        "readiness of equipment|cost growth of weapons|repair backlogs|software in weapon systems",
    ),
    "health": _programme(
        "the Centers for Medicare and Medicaid Services|the Food and Drug Administration"
        "|the Department of Health and Human Services|the National Institutes of Health",
        "the prescription drug benefit|the hospital payment model|the vaccine stockpile|the nursing home"
        " inspections",
        "improper payments|access to rural hospitals|drug shortages|quality of care",
    ),
    "veterans": _programme(
        "the Department of Veterans Affairs|the Veterans Health Administration|the Board of Veterans'"
        " Appeals",
        "the disability claims process|the community care programme|the scheduling system|the caregiver"
        " support",
        "waiting times for appointments|the backlog of appeals|staffing of clinics|records of service",
    ),
    "transport": _programme(
        "the Federal Aviation Administration|the Department of Transportation|the Federal Highway"
        " Administration|the Coast Guard",
        "the air traffic modernisation|the bridge replacement grants|the rail safety rule|the port security"
        " grants",
        "flight delays|condition of bridges|driver fatigue|inspection of containers",
    ),
    "environment": _programme(
        "the Environmental Protection Agency|the Fish and Wildlife Service|the Bureau of Land Management",
        "the drinking water fund|the clean-up of contaminated sites|the grazing permits|the wildfire fuel"
        " treatment",
        "lead in water pipes|emissions from power plants|loss of habitat|abandoned mines",
    ),
    "taxes": _programme(
        "the Internal Revenue Service|the Department of the Treasury|the Tax Division",
        "the earned income credit|the audit selection programme|the filing season|the identity theft"
        " controls",
        "the tax gap|refund fraud|taxpayer telephone service|ageing computer systems",
    ),
    "education": _programme(
        "the Department of Education|the Office of Federal Student Aid|state education agencies",
        "the student loan servicing|the school lunch grants|the teacher training grants|the college"
        " scorecard",
        "loan defaults|students with disabilities|charter school oversight|enrolment figures",
    ),
    "homeland": _programme(
        "the Department of Homeland Security|Customs and Border Protection|the Transportation Security"
        " Administration|the Federal Emergency Management Agency",
        "the disaster relief fund|the screening equipment purchase|the entry and exit system|the flood"
        " insurance programme",
        "passenger screening|claims after hurricanes|recruitment of agents|sharing of threat information",
    ),
    "energy": _programme(
        "the Department of Energy|the Nuclear Regulatory Commission|the Federal Energy Regulatory Commission",
        "the waste treatment plant|the loan guarantees|the grid resilience grants|the warhead life extension",
        "storage of nuclear waste|outages of the grid|contractor oversight|cyber security of utilities",
    ),
    "farming": _programme(
        "the Department of Agriculture|the Farm Service Agency|the Forest Service",
        "the crop insurance programme|the nutrition assistance|the rural broadband loans|the meat inspection"
        " plan",
        "subsidies to large farms|food safety recalls|trafficking of benefits|drought assistance",
    ),
    "justice": _programme(
        "the Department of Justice|the Bureau of Prisons|the Federal Bureau of Investigation|the immigration"
        " courts",
        "the case management system|the reentry programme|the forensic laboratory grants|the witness security"
        " programme",
        "crowding of prisons|the backlog of cases|untested evidence|hiring of judges",
    ),
    "housing": _programme(
        "the Department of Housing and Urban Development|the Federal Housing Administration|local housing"
        " agencies",
        "the voucher programme|the public housing repairs|the mortgage insurance fund|the block grants",
        "lead paint in apartments|homelessness among families|foreclosures|vacant units",
    ),
}

_REPORT = Body(
    headings=(
        "#. Background: {agency} is responsible for {matter} and runs {programme}.",
        "#. What the review found: the review looked at {programme} between {from:1998-2009} and"
        " {until:2010-2019}.",
        "#. Progress since the last report: {agency} has taken steps to deal with {matter}.",
        "#. Challenges that remain: officials named {matter} as the main difficulty of {programme}.",
        "#. Scope and method: documents of {agency} were analysed and {people:12-240} officials interviewed.",
        "#. Costs and schedule: estimates for {programme} have changed {times:2-9} times since"
        " {from:1998-2015}.",
        "#. Recommendations: {agency} should set out how {programme} will deal with {matter}.",
        "#. Comments of the agency: {agency} agreed with {agreed:1-5} of the recommendations.",
    ),
    sentences=(
        "In fiscal year {year:2001-2019}, {agency} obligated about ${cost:12-980} million for {programme}.",
        "Officials told the reviewers that {matter} had been a concern since at least {since:1990-2012}.",
        "Of the {cases:40-900} cases examined, {few:3-39} lacked documents that the guidance requires.",
        "{agency} does not collect reliable data on {matter}, so the extent of the problem is not known.",
        "An earlier report recommended that {agency} assess {matter2}; the recommendation has not been"
        " implemented.",
        "The law requires {agency} to report each year on {matter} to the committees of jurisdiction.",
        "According to agency data, the number of applications rose by {percent:2-85} per cent over"
        " {span:2-12} years.",
        "Two of the {sites:4-30} sites visited had no written procedure for {matter2}.",
        "{agency} attributes the delay to a shortage of trained staff and to changes in {programme2}.",
        "Without clear measures of performance, managers cannot tell whether {programme} achieves its goals.",
        "Contractors carried out {share:10-95} per cent of the work, and oversight of them varied by region.",
        "In response, {agency2} issued guidance in {issued:2006-2018} that defines roles and"
        " responsibilities.",
        "The estimated cost of {programme} grew from ${low:10-90} million to ${high:91-900} million.",
        "Stakeholders from {groups:3-24} organisations said that the process takes too long and costs too"
        " much.",
        "Internal controls over {matter} were not designed in line with federal standards.",
        "{agency} and {agency2} have signed an agreement on {matter2}, but have not agreed on who leads.",
        "A sample of {sample:50-600} files, which cannot be generalised, showed errors in about one file in"
        " {one:4-30}.",
        "The pilot in {states:2-14} states ended in {ended:2008-2018} without an evaluation.",
        "Officials expect that a new information system will replace manual tracking by"
        " {replaced:2020-2026}.",
        "If the trend continues, the balance of the fund will be exhausted within {exhausted:3-19} years.",
        "Some regional offices reviewed every case, while others reviewed fewer than {fewer:5-40} per cent.",
        "The inspector general reached a similar conclusion about {programme2} in {concluded:2004-2018}.",
    ),
    fewest=6,
    most=14,
    median_characters=33_600,
    spread=0.25,
    shortest_characters=6_000,
    longest_characters=39_600,
)

REPORTS = Family(
    name="govreport",
    published=6500,
    topics=_PROGRAMMES,
    templates=(
        "Summarise the report below in {words:400-600} words for a reader who has not seen it.",
        "Write a summary of the following government report, with its findings and recommendations.",
        "Summarise this report on {matter} for a member of {agency}.",
    ),
    body=_REPORT,
)
